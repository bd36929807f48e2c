"""The command line: one file per verb. Nothing here loads torch before it is needed."""

ARCH_HELP = "A zoo name, a notation string such as '(sfff)x6(f)x8', or a JSON file."
