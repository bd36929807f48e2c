"""Graph-shaped layers: formulas (AutoBERT-Zero), programs (Primer), cells (Evolved Transformer).

| system | the node | how it is checked and simplified | published ones |
|---|---|---|---|
| formulas | formula.py, formula_steps.py | formula_plan.py | formulas |
| programs | program.py, instruction.py | straightline.py, unfold.py, tidy_program.py | programs |
| cells | cell.py | cell.py | genes |
"""
