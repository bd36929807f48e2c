"""The command line: one file per verb. Nothing here loads torch before it is needed."""

ARCH_HELP = "A zoo name, a notation such as '(sfff)x6(f)x8', a JSON file, or trial N: 'RUN#N'."
MODEL_HELP = f"{ARCH_HELP[:-1]}; also the folder of a model, ours or in Hugging Face's format."
