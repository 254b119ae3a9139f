"""Reports: runs become tables, figures and one HTML page that opens offline."""

from kinbandits.report.comparing import Comparison, compare
from kinbandits.report.figures import choices_figure
from kinbandits.report.page import Report, write_report
from kinbandits.report.results import Results, Run, RunGroup

__all__ = ["Comparison", "Report", "Results", "Run", "RunGroup", "choices_figure", "compare", "write_report"]
