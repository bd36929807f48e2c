"""PAR's Gumbel policy chooses among DARTFormer's nine attentions, at a price on time."""

from formwright.cost import Meter, Target
from formwright.cost.table import Table, measured_entries, pieces_of
from formwright.space.dartformer import Encoders
from formwright.strategy.gradient import GumbelPolicy, SearchConfig, search_supernet
from formwright.supernet import Supernet, option_prices
from formwright.tasks import load_task
from formwright.train import TrainConfig

task = load_task("listops-tiny?pool=cls&train=200&valid=40&test=40")
space, target = Encoders.tiny(task.frame, heads=2).layer_wise(), Target(length=24)
pieces, meter = pieces_of(space, target), Meter(target)
models = {model for piece in pieces for model in (piece.whole, piece.without) if model is not None}
ratios = {model: meter.measure(model, seconds=0.1).ratio for model in models}
times = Table(tuple(measured_entries(pieces, ratios)), target)
supernet = Supernet(space)
policy = GumbelPolicy(supernet, prices=option_prices(supernet, times.of_layer), price=0.2)
training = TrainConfig(steps=30, batch_tokens=256, warmup=2)
found = search_supernet(supernet, policy, task, training, SearchConfig(warmup=10, every=3, lr=0.1))
print({name: space.option_words()[name][option] for name, option in found.decisions.items()})
