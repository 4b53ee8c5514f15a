"""Reading KIR JSON: any bytes give a `Module` or coded diagnostics with a JSON pointer and a line.

Steps: bytes → text → JSON (duplicate keys, NaN, sizes and depth refused) → version → models (pydantic's errors become codes). The
result is well formed; `kir.verify` says whether it means something.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.files import read_regular
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.migrate import migrate, oldest
from eqkir.kir.model import OPERATIONS, VERSION, Kernel, Module
from eqkir.kir.positions import Positions, escape

MAX_BYTES = 64 << 20
MAX_VALUES = 1_000_000
MAX_DEPTH = 200
MAX_KERNELS = 4096
LIMIT = 20  # diagnostics reported at once
_KINDS = ("constexpr", "scalar", "view")


@dataclass(frozen=True)
class Broken:
    """A kernel that is not well formed: its place in the module, its name if it has one."""

    index: int
    name: str | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Reading:
    """A module as read: `module` holds the well-formed kernels, `indices` their places in the file, `broken` the others."""

    module: Module
    indices: tuple[int, ...]
    broken: tuple[Broken, ...]
    positions: Positions

    def whole(self) -> Module:
        """The module. Raises EqkirError when a kernel is broken."""
        if self.broken:
            raise EqkirError(*[d for b in self.broken for d in b.diagnostics][:LIMIT])
        return self.module


class _Bad:
    """Stands in the parsed data where the text is refused."""

    def __init__(self, key: str, message: str) -> None:
        self.key, self.message = key, message


class _Twice(dict[str, Any]):
    """An object with a key that occurs twice."""

    key = ""


def _constant(text: str) -> _Bad:
    return _Bad("NUMBER", f"{text} is no JSON number")


def _integer(text: str) -> int | _Bad:
    return int(text) if len(text) <= 39 else _Bad("NUMBER", f"an integer of {len(text.lstrip('-'))} digits")


def _float(text: str) -> float | _Bad:
    v = float(text)
    return v if math.isfinite(v) else _Bad("NUMBER", f"{text[:40]} is beyond f64")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) == len(pairs):
        return out
    seen: set[str] = set()
    twice = _Twice(out)
    twice.key = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
    return twice


class _Reader:
    """One file on its way to a module; collects diagnostics."""

    def __init__(self, data: bytes, file: str | None) -> None:
        self.data, self.file = data, file
        self.positions = Positions("", file)
        self.found: list[Diagnostic] = []

    def say(self, key: str, message: str, pointer: str = "", accepted: str = "", line: int | None = None) -> None:
        if len(self.found) >= LIMIT:
            return
        d = Diagnostic(CODES[key], message, pointer, self.file, line, accepted, STAGE)
        if line is None and self.positions.text:
            file, line = self.positions.locate(pointer)
            d = replace(d, line=line)
        self.found.append(d)

    def stop(self) -> None:
        if self.found:
            raise EqkirError(*self.found)

    # ------------------------------------------------------------------ text
    def parse(self) -> Any:
        if len(self.data) > MAX_BYTES:
            self.say("SIZE", f"more than {MAX_BYTES} bytes", accepted=f"at most {MAX_BYTES}")
            self.stop()
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError as e:
            self.say("UTF8", f"byte {e.start} is 0x{self.data[e.start]:02x}: {e.reason}", line=self.data.count(b"\n", 0, e.start) + 1)
            self.stop()
        self.positions = Positions(text, self.file)
        if text.startswith("\ufeff"):
            self.say("UTF8", "a byte order mark", line=1, accepted="UTF-8 without a byte order mark")
            self.stop()
        try:
            return json.loads(text, parse_constant=_constant, parse_int=_integer, parse_float=_float, object_pairs_hook=_object)
        except json.JSONDecodeError as e:
            self.say("JSON", f"{e.msg} (column {e.colno})", line=e.lineno)
        except RecursionError:
            self.say("DEPTH", "arrays or objects nest too deeply", line=1, accepted=f"at most {MAX_DEPTH} deep")
        self.stop()
        return None

    def walk(self, data: Any) -> None:
        """Refuse what the decoder let through: stand-ins, duplicate keys, lone surrogates, size, depth."""
        stack: list[tuple[Any, tuple[Any, ...] | None, int]] = [(data, None, 0)]  # value, path as a linked list, depth
        count = 0
        while stack:
            x, path, depth = stack.pop()
            count += 1
            if depth > MAX_DEPTH or count > MAX_VALUES:
                key, what = ("DEPTH", "nesting") if depth > MAX_DEPTH else ("SIZE", "more than a million JSON values")
                self.say(key, what, "" if key == "SIZE" else _pointer(path), f"at most {MAX_DEPTH} deep, {MAX_VALUES} values")
                break
            if isinstance(x, _Bad):
                self.say(x.key, x.message, _pointer(path), "a finite number of moderate size")
            elif isinstance(x, str):
                self.surrogate(x, path)
            elif isinstance(x, list):
                count += len(x) if len(x) > MAX_VALUES else 0
                if count <= MAX_VALUES:
                    stack += [(y, (path, i), depth + 1) for i, y in enumerate(x)]
            elif isinstance(x, dict):
                if isinstance(x, _Twice):
                    self.say("DUPKEY", f"the key {x.key!r:.80} occurs twice", _pointer(path), "each key once")
                for k, y in x.items():
                    self.surrogate(k, path)
                    stack.append((y, (path, k), depth + 1))
            if len(self.found) >= LIMIT:
                break
        if count > MAX_VALUES and not self.found:
            self.say("SIZE", "more than a million JSON values", "", f"at most {MAX_VALUES}")
        self.stop()

    def surrogate(self, text: str, path: tuple[Any, ...] | None) -> None:
        if any("\ud800" <= c <= "\udfff" for c in text) if not text.isascii() else False:
            self.say("UTF8", "a lone surrogate in a string", _pointer(path), "Unicode text")

    # ------------------------------------------------------------------ models
    def module(self, data: Any) -> Reading:
        if not isinstance(data, dict):
            self.say("VALUE", f"a module is an object, not {_kind(data)}", "", '{"kir": 1, "kernels": […]}')
            self.stop()
        version = data.get("kir")
        known = isinstance(version, int) and not isinstance(version, bool)
        if not known or not oldest() <= version <= VERSION:
            newer = " is newer than this eqkir" if known and version > VERSION else ""
            what = f"version {version!r:.40}{newer}" if "kir" in data else "no version"
            if "kir" not in data and "program" in data and "segments" in data:
                what = "this is a program.json, not KIR (`eqkir emit`, `show` and `run` take it)"
            self.say("VERSION", what, "/kir" if "kir" in data else "", f'"kir": {VERSION}')
            self.stop()
        data = self.migrated(data, version)
        kernels = data.get("kernels")
        head = {k: v for k, v in data.items() if k != "kernels" or not isinstance(v, list)}
        shell = self.validate(Module, head if "kernels" in head or "kernels" not in data else {**head, "kernels": []}, "")
        if isinstance(kernels, list) and len(kernels) > MAX_KERNELS:
            self.say("SIZE", f"{len(kernels)} kernels", "/kernels", f"at most {MAX_KERNELS} in one module")
        self.stop()
        good: list[tuple[int, Kernel]] = []
        broken: list[Broken] = []
        for i, k in enumerate(kernels if isinstance(kernels, list) else ()):
            kernel = self.validate(Kernel, k, f"/kernels/{i}")
            if kernel is not None:
                good.append((i, kernel))
                continue
            name = k.get("name") if isinstance(k, dict) else None
            broken.append(Broken(i, name if isinstance(name, str) else None, tuple(self.found)))
            self.found = []
            if sum(len(b.diagnostics) for b in broken) >= LIMIT * LIMIT:
                break
        module = Module.model_copy(shell, update={"kernels": tuple(k for _, k in good)})
        return Reading(module, tuple(i for i, _ in good), tuple(broken), self.positions)

    def migrated(self, data: dict[str, Any], version: int) -> dict[str, Any]:
        """The data in the current version; what an older one cannot mean is no module."""
        try:
            return migrate(data, version)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            self.say("VALUE", f"no module of version {version}: {e}", "")
            self.stop()
            raise

    def validate(self, model: Any, data: Any, pointer: str) -> Any:
        try:
            return model.model_validate_json(json.dumps(data))
        except ValidationError as e:
            if e.error_count() > 10_000:
                self.say("VALUE", f"{e.error_count()} errors", pointer)
                return None
            seen: set[str] = set()
            for error in e.errors(include_url=False, include_context=False):
                self.translate(error, data, pointer, seen)
                if len(self.found) >= LIMIT:
                    break
        except RecursionError:
            self.say("DEPTH", "regions nest too deeply", pointer)
        return None

    def translate(self, error: Any, data: Any, pointer: str, seen: set[str]) -> None:
        """One pydantic error as a diagnostic; of a union's errors only the first."""
        tokens, value, missing = _follow(data, error["loc"])
        at = pointer + "".join("/" + escape(str(t)) for t in tokens)
        kind, message = error["type"], error["msg"]
        if kind == "missing":
            self.say("FIELD", f"the field {missing!r} is missing", at)
            return
        if kind == "extra_forbidden":
            self.say("FIELD", f"unknown field {tokens[-1]!r:.80}" if tokens else "unknown field", at)
            return
        if at in seen:
            return
        seen.add(at)
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            tag = "op" if isinstance(value, dict) and "kind" not in value and "params" not in tokens[-2:-1] else "kind"
            accepted = " ".join(sorted(OPERATIONS) if tag == "op" else _KINDS)
            if isinstance(value, dict) and tag in value:
                self.say("OP" if tag == "op" else "KIND", f"unknown {tag} {value[tag]!r:.80}", f"{at}/{tag}", accepted)
            else:
                self.say("FIELD", f"the field {tag!r} is missing", at, accepted)
            return
        accepted = "" if isinstance(value, (dict, list)) else f"not {value!r:.60}"
        self.say("VALUE", message[0].lower() + message[1:], at, accepted)


def _kind(x: Any) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a bool", type(None): "null"}.get(type(x), "a number")


def _pointer(path: tuple[Any, ...] | None) -> str:
    tokens: list[str] = []
    while path is not None:
        path, token = path
        tokens.append(escape(str(token)))
    return "".join("/" + t for t in reversed(tokens))


def _follow(data: Any, loc: tuple[Any, ...]) -> tuple[list[Any], Any, Any]:
    """Tokens of the JSON element that a pydantic location names (it also names union members), the element, and what it lacks."""
    tokens: list[Any] = []
    tagged = True
    for part in loc:
        if isinstance(data, dict):
            if not tagged and part in (data.get("op"), data.get("kind")):
                tagged = True
                continue
            if part not in data:
                return tokens, data, part
        elif not (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            continue
        data = data[part]
        tokens.append(part)
        tagged = not isinstance(part, int)
    return tokens, data, None


def survey(data: bytes, file: str | None = None) -> Reading:
    """The well-formed kernels of `data` and what is wrong with the others. Raises EqkirError when the whole is unreadable."""
    reader = _Reader(data, file)
    parsed = reader.parse()
    reader.walk(parsed)
    return reader.module(parsed)


def _bytes(path: str | Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as e:
        raise EqkirError(Diagnostic(CODES["FILE"], getattr(e, "strerror", None) or str(e), file=str(path), stage=STAGE)) from None


def survey_file(path: str | Path) -> Reading:
    """`survey` of a file."""
    return survey(_bytes(path), str(path))


def read(data: bytes, file: str | None = None) -> tuple[Module, Positions]:
    """The module in `data` and the positions of its elements (for `verify`). Raises EqkirError with up to 20 diagnostics."""
    reading = survey(data, file)
    return reading.whole(), reading.positions


def read_file(path: str | Path) -> tuple[Module, Positions]:
    """`read` of a file."""
    return read(_bytes(path), str(path))


def load_bytes(data: bytes, file: str | None = None) -> Module:
    """The module in `data`; `file` is its name in diagnostics. Raises EqkirError with up to 20 diagnostics."""
    return survey(data, file).whole()


def load_file(path: str | Path) -> Module:
    """The module in a file. Raises EqkirError with up to 20 diagnostics."""
    return survey_file(path).whole()
