"""Reports: one self-contained HTML file about a study. No torch."""

from formwright.report.material import Material, gather
from formwright.report.page import page_html
from formwright.report.write import write_report

__all__ = ["Material", "gather", "page_html", "write_report"]
