"""Training-free proxies of quality."""

from formwright.estimate.proxy.base import Proxies, Proxy, Sample, get_proxy, proxy
from formwright.estimate.proxy.combined import Combined

__all__ = ["Combined", "Proxies", "Proxy", "Sample", "get_proxy", "proxy"]
