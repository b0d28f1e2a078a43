"""Reading and writing of files: strict readers with limits of size, and an atomic writer."""

from morph_opt.core.documents.fields import Fields
from morph_opt.core.documents.parse import (
    key_lines,
    parse_json,
    parse_toml,
    read_json,
    read_lines,
    read_toml,
)
from morph_opt.core.documents.source import (
    JSON_BYTES,
    LIMIT_VARIABLE,
    LINES_BYTES,
    TOML_BYTES,
    exists,
    is_file,
    not_a_file,
    read_bytes,
    read_stdin,
    read_text,
    stream_lines,
    stream_text,
)
from morph_opt.core.documents.structure import kind_of, names_of, plain, structure
from morph_opt.core.documents.table import Row, read_rows, rows_of
from morph_opt.core.documents.writing import (
    remove_unfinished,
    require_no_input,
    require_no_special,
    toml_text,
    write_atomically,
)

__all__ = [
    "JSON_BYTES",
    "LIMIT_VARIABLE",
    "LINES_BYTES",
    "TOML_BYTES",
    "Fields",
    "Row",
    "exists",
    "is_file",
    "key_lines",
    "kind_of",
    "names_of",
    "not_a_file",
    "parse_json",
    "parse_toml",
    "plain",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_rows",
    "read_stdin",
    "read_text",
    "read_toml",
    "remove_unfinished",
    "require_no_input",
    "require_no_special",
    "rows_of",
    "stream_lines",
    "stream_text",
    "structure",
    "toml_text",
    "write_atomically",
]
