"""The report: one HTML file that says what is proved and how far each scheduler is from it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alloc.report.report import write_report as write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    """Load plotting only when a report is written: tables of answers do without."""
    if name == "write_report":
        from alloc.report.report import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
