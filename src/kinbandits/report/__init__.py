"""Reports: runs become tables, figures and one HTML page that opens offline."""

from kinbandits.report.choices import choices_figure
from kinbandits.report.page import Report, write_report
from kinbandits.report.results import Results, Run, RunGroup

__all__ = ["Report", "Results", "Run", "RunGroup", "choices_figure", "write_report"]
