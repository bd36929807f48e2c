"""Finding Fast Transformers' direct optimisation (real gates, an L1 price) on PAR's slots."""

from formwright.arch import Load, notation
from formwright.arch.style import style
from formwright.space.order import order_space
from formwright.strategy.gradient import RealPolicy, SearchConfig, search_supernet
from formwright.supernet import Supernet, option_prices
from formwright.tasks import load_task
from formwright.train import TrainConfig

task = load_task("stdlib?length=32")
space = order_space(style("gpt2", 32), task.frame, slots=6, letters="sfi")
supernet = Supernet(space)
costs = option_prices(supernet, lambda layer, site: layer.count(site, Load(length=32)).flops)
policy = RealPolicy(supernet, adaptive=True, prices=costs, price=0.5)
training = TrainConfig(steps=40, batch_tokens=256, warmup=2)
found = search_supernet(supernet, policy, task, training, SearchConfig(joint=True, lr=0.05))
print(notation(found.arch).partition(" ")[0])
