"""What may be wrong with a line of Prometheus text, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass

from railkeeper.adapters import exposition_kernels as k

SHOWN_BYTES = 80

TEXTS: dict[int, tuple[str, str]] = {
    k.BAD_NAME: ("no metric name", "a line begins with a name of letters, digits, _ and :"),
    k.BAD_LABEL_NAME: ("no label name", 'labels are name="value" between braces, with commas'),
    k.BAD_EQUALS: ("no = after a label's name", 'labels are name="value"'),
    k.BAD_QUOTE: ("a label's value is not quoted", 'labels are name="value"'),
    k.BAD_ESCAPE: ("unknown escape in a label's value", 'only \\\\, \\" and \\n'),
    k.BAD_OPEN_VALUE: ("a label's value does not end", "it ends with a double quote on the same line"),
    k.BAD_AFTER_LABEL: ("neither , nor } after a label", 'labels are name="value" between braces, with commas'),
    k.BAD_SPACE: ("no blank before the value", "a line is: name, labels, one blank, value"),
    k.BAD_VALUE: ("the value is no number", "a decimal number within float64, NaN, +Inf or -Inf"),
    k.BAD_TIME: ("the time is no number", "milliseconds as a whole number; in OpenMetrics seconds"),
    k.BAD_REST: ("something follows the time", "a line is: name, labels, value, time"),
    k.BAD_EXEMPLAR: ("a bad exemplar", "# {labels} value time, after the sample's value and time"),
    k.BAD_CUT: ("the text ends within this line", "a whole text ends with a line feed"),
    k.BAD_BLANK: ("an empty line", "OpenMetrics has none"),
    k.BAD_COMMENT: ("a bad comment", ""),
    k.BAD_AFTER_EOF: ("a line after # EOF", "# EOF is the last line"),
    k.BAD_UTF8: ("the line is not UTF-8", "text is UTF-8"),
    k.BAD_SERIES: ("a bad series", ""),
    k.BAD_FAMILY: ("the sample does not fit its family", ""),
    k.BAD_TWICE: ("the series was there before with this time", "each series once, or with rising times"),
    k.BAD_COUNTER: ("a count is negative or NaN", "counts go from 0 up"),
}


@dataclass(frozen=True)
class LineError:
    """One line that could not be taken: where it stands (from 1), what is wrong, what would be right, how it begins."""

    line: int
    column: int
    problem: str
    right: str
    text: str

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}: {self.problem}"
        return f"{where}; {self.right}: {self.text}" if self.right else f"{where}: {self.text}"


def line_error(line: int, column: int, code: int, raw: bytes, special: tuple[str, str] | None = None) -> LineError:
    """Return the error of a line by its code, or by a problem and what would be right where those are known better."""
    problem, right = special or TEXTS[code]
    shown = raw[:SHOWN_BYTES].decode("utf-8", "backslashreplace") + ("…" if len(raw) > SHOWN_BYTES else "")
    return LineError(line, column, problem, right, repr(shown))
