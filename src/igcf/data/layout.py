"""Which column of a table is what: found by common names, otherwise by place; always said in one line."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import polars as pl

from igcf.data.columns import Columns, Numbers, Times, refuse_nested
from igcf.errors import DataError, quoted

Role = Literal["user", "item", "value", "timestamp", "kind"]
ROLES: tuple[Role, ...] = ("user", "item", "value", "timestamp", "kind")
NAMES: dict[Role, tuple[str, ...]] = {
    "user": (
        "user", "userid", "uid", "username", "customer", "customerid", "customerno", "customernumber", "shopper",
        "shopperid", "buyer", "buyerid", "reviewerid", "reviewer", "visitor",
        "visitorid", "member", "memberid", "profileid", "accountid", "account", "clientid", "personid", "sessionid",
        "session", "benutzer", "benutzerid", "nutzer", "nutzerid", "kunde", "kundenid", "kundennr", "kundennummer",
        "utilisateur", "idutilisateur", "client", "idclient", "usuario", "idusuario", "cliente", "idcliente",
        "utente", "idutente", "gebruiker", "gebruikerid", "klant", "klantid", "uzytkownik", "пользователь", "клиент",
        "用户", "用户id", "用户编号", "客户", "顧客", "顧客id", "ユーザー", "ユーザーid", "ユーザid", "사용자",
        "사용자id",
    ),
    "item": (
        "item", "itemid", "iid", "movieid", "movie", "filmid", "film", "artistid", "artist", "songid", "song",
        "trackid", "track", "asin", "parentasin", "productid", "product", "productcode", "stockcode", "sku",
        "bookid", "book", "isbn",
        "businessid", "business", "videoid", "video", "articleid", "article", "newsid", "gameid", "game", "animeid",
        "recipeid", "jokeid", "venueid", "placeid", "contentid", "showid", "courseid", "artikel", "artikelid",
        "artikelnr", "artikelnummer", "produkt", "produktid", "buch", "buchid", "produit", "idproduit", "livre",
        "articulo", "idarticulo", "producto", "idproducto", "pelicula", "libro", "articolo", "prodotto", "idprodotto",
        "produto", "idproduto", "livro", "filme", "товар", "фильм", "книга", "物品", "物品id", "商品", "商品id",
        "商品编号", "电影", "电影id", "アイテム", "アイテムid", "映画", "작품", "상품", "상품id", "영화",
    ),
    "value": (
        "value", "rating", "ratings", "stars", "star", "starrating", "score", "overall", "grade", "vote",
        "watchratio", "weight", "plays", "playcount", "playcounts", "listens", "listencount", "count", "counts",
        "clicks", "views", "quantity", "qty", "amount", "duration", "playduration", "hours", "reward", "label",
        "like", "liked", "bewertung", "wertung", "note", "sterne", "punkte", "wert", "anzahl", "menge", "evaluation",
        "valeur", "quantite", "etoiles", "puntuacion", "calificacion", "valoracion", "nota", "valor", "cantidad",
        "estrellas", "valutazione", "voto", "quantita", "avaliacao", "beoordeling", "waardering", "ocena", "оценка",
        "рейтинг", "评分", "打分", "評価", "評点", "평점", "별점",
    ),
    "timestamp": (
        "timestamp", "time", "datetime", "date", "ts", "unixreviewtime", "unixtime", "unixtimestamp", "eventtime",
        "orderdate", "orderedat", "purchasedate", "purchasedat", "placedat", "invoicedate",
        "createdat", "created", "reviewtime", "ratedat", "datum", "zeit", "zeitpunkt", "zeitstempel", "uhrzeit",
        "horodatage", "dateheure", "fecha", "hora", "fechahora", "data", "dataora", "datahora", "tijd", "tijdstip",
        "czas", "дата", "время", "时间", "时间戳", "日期", "日時", "日付", "時刻", "날짜", "시간",
    ),
    "kind": (
        "kind", "event", "eventtype", "action", "behavior", "behaviour", "behaviortype", "interactiontype",
        "ereignis", "aktion", "evenement", "accion", "evento", "azione", "行为", "行为类型",
    ),
}  # fmt: skip
"""Names that say what a column holds, without case, blanks, `_` and `-`; of several the first of this list counts."""
ITEM_NAMES = {
    "id": ("id", *NAMES["item"]),
    "title": ("title", "name", "itemtitle", "itemname", "movietitle", "artistname", "productname", "headline"),
    "categories": ("categories", "category", "genres", "genre", "tags", "tag", "topics", "topic", "department"),
    "tags": ("tags", "tag", "labels", "keywords"),
    "text": ("text", "description", "overview", "summary", "plot", "abstract"),
    "image": ("image", "imagepath", "imageurl", "poster", "posterpath", "thumbnail", "picture"),
    "available_from": ("availablefrom", "validfrom"),
    "available_until": ("availableuntil", "validuntil", "expires", "expiry"),
    "hidden": ("hidden", "ishidden"),
}
"""Names of the columns of a table of items."""
FEW_COLUMNS = 4
"""In a table of at most this many columns, those with unknown names are user, item, value, time in this order."""
FIRST_EPOCH = 1e8
"""Whole numbers from here on, without other evidence, are seconds since 1970, not values."""
SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe", "::": "::", " ": "blank"}
"""What may stand between two columns of a text file, and its name."""


@dataclass(frozen=True)
class LogLayout:
    """Columns of a table that were taken, and how a text file is divided into them."""

    user: str
    item: str
    value: str | None
    """Column of the values; None: every reaction counts as 1, or has the value of its kind."""
    timestamp: str | None = None
    kind: str | None = None
    """Column of the kinds of feedback; None where values do not come from kinds."""
    unused: tuple[str, ...] = ()
    separator: str | None = None
    """Separator of a text file; None for other tables."""
    has_header: bool = True
    encoding: str | None = None
    """Encoding of a text file with other than ASCII characters."""
    numbers: str = ""
    """How numbers are written, where they are not plain: `decimal comma`."""
    dates: tuple[str, ...] = ()
    """Formats of the dates of a text file."""
    guessed: tuple[str, ...] = ()
    """Columns of a wide table that were taken for users or items by their place alone."""
    perhaps_value: str | None = None
    """Column of a wide table that was not taken and looks like values."""
    perhaps_timestamp: str | None = None
    """Column of a wide table that was not taken and looks like times."""

    def wanted(self) -> tuple[str, ...]:
        """Return the columns that are read."""
        named = (self.user, self.item, self.value, self.timestamp, self.kind)
        return tuple(name for name in named if name is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        lists = {name: list(getattr(self, name)) for name in ("unused", "guessed", "dates")}
        return {**asdict(self), **lists, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """One line for people: `columns: user = userID, item = artistID, value = weight; separator: tab`."""
        parts = [f"user = {self.user}", f"item = {self.item}"]
        if self.kind is not None:
            parts.append(f"value by kind = {self.kind}")
        else:
            parts.append("no value (every reaction counts as 1)" if self.value is None else f"value = {self.value}")
        if self.timestamp is not None:
            parts.append(f"time = {self.timestamp}")
        dates = [_said(form) for form in self.dates if not form.startswith("%Y-%m-%d")]
        sentences = (
            f"columns: {', '.join(parts)}",
            f"not used: {', '.join(self.unused)}" if self.unused else "",
            "" if self.separator is None else text_sentence(self.separator, self.has_header, self.encoding),
            self.numbers,
            f"dates: {', '.join(dates)}" if dates else "",
        )
        return "; ".join(filter(None, sentences))


def text_sentence(separator: str, has_header: bool, encoding: str | None) -> str:
    """Say how a text file is divided: `separator: comma; no header; encoding: cp1252`."""
    parts = (
        SEPARATORS.get(separator, separator),
        "" if has_header else "no header",
        encoding and f"encoding: {encoding}",
    )
    return f"separator: {'; '.join(filter(None, parts))}"


def _said(form: str) -> str:
    """Write a format of dates for people: `%d.%m.%Y %H:%M` becomes `day.month.year`."""
    words = {"d": "day", "m": "month", "b": "month", "B": "month", "Y": "year", "y": "year", "a": "weekday"}
    return re.sub("%([a-zA-Z])", lambda found: words[found[1]], re.split("[ T]?%[HI]", form)[0])


def find_layout(sample: pl.DataFrame, columns: Columns, source: str) -> LogLayout:
    """Find the columns of a log in the first rows of its table.

    A column that the caller names is taken; otherwise one with a common name. Users and items that are found neither
    way are the first columns left that do not hold dates. A value or a time that is not found by its name is looked
    for in small tables only (`FEW_COLUMNS`), by its place and by whether it looks like one.
    """
    names = sample.columns
    found = {role: name for role in ROLES if (name := getattr(columns, role)) is not None}
    if missing := [name for name in found.values() if name not in names]:
        remedy = "name the columns to use with user=, item=, value=, timestamp="
        raise DataError(
            f"{source} has no column {_quoted(missing)}; found {_quoted(names)}; {remedy}", kind="missing-column"
        )
    for role in ROLES:
        if role not in found:
            free = [name for name in names if name not in found.values()]
            if (known := named(free, NAMES[role])) is not None:
                found[role] = known
    left = [name for name in names if name not in found.values()]
    guessed: list[str] = []
    for role in ("user", "item"):
        if role not in found:
            if (first := next((name for name in left if not _holds_dates(sample[name])), None)) is None:
                raise DataError(
                    f"{source} has {len(names)} column{'s' if len(names) > 1 else ''} ({_quoted(names)}) and none for "
                    f"the {role}s; expected users and items and, where known, values and times; "
                    "name them with user=, item=, value=, timestamp=",
                    kind="missing-column",
                )
            found[role] = first
            left.remove(first)
            guessed.append(first)
    looks = _with_looks(found, left, sample)
    if len(names) <= FEW_COLUMNS:
        return _checked_layout(looks, columns, sample, source)
    layout = _checked_layout(found, columns, sample, source)
    has_values = columns.implicit or layout.value is not None or layout.kind is not None
    return replace(
        layout,
        guessed=tuple(guessed),
        perhaps_value=None if has_values else looks.get("value"),
        perhaps_timestamp=None if layout.timestamp is not None else looks.get("timestamp"),
    )


def _holds_dates(column: pl.Series) -> bool:
    """Tell whether a column holds dates as text, which are times and nobody's id."""
    known = column.drop_nulls()
    return len(known) > 0 and Times()(known)[0].null_count() == 0 and Numbers()(known).null_count() == len(known)


def _with_looks(named_so_far: Mapping[Role, str], left: Iterable[str], sample: pl.DataFrame) -> dict[Role, str]:
    """Return the columns found, and of those left the value and the time, in this order, where they look like it."""
    found = dict(named_so_far)
    for name in left:
        if named([name], (*NAMES["user"], *NAMES["item"])) is not None:
            continue  # a second column of ids is neither
        numbers = Numbers()(sample[name])
        is_number = numbers.null_count() == sample[name].null_count()
        is_epoch = is_number and len(numbers.drop_nulls()) > 0 and bool((numbers.drop_nulls() >= FIRST_EPOCH).all())
        if "value" not in found and is_number and not is_epoch:
            found["value"] = name
        elif "timestamp" not in found and Times()(sample[name])[0].null_count() == sample[name].null_count():
            found["timestamp"] = name
    return found


def _checked_layout(found: Mapping[Role, str], columns: Columns, sample: pl.DataFrame, source: str) -> LogLayout:
    """Decide where values come from: the column of values, that of the kinds, or none."""
    value, kind = found.get("value"), found.get("kind")
    if columns.implicit:
        value = kind = None
    elif columns.kinds and kind is not None:
        value = None
    elif value is None and kind is not None:
        examples = _quoted(sample[kind].drop_nulls().unique(maintain_order=True)[:3].to_list())
        raise DataError(
            f"{source} has kinds of feedback (column {kind!r}: {examples}) and no values; give every kind its value "
            "with kinds=, or count every reaction as a success with implicit="
        )
    else:
        kind = None
    taken = (found["user"], found["item"], value, found.get("timestamp"), kind)
    if len(set(taken[:2])) < 2:
        raise DataError(f"{source}: column {taken[0]!r} cannot be both user= and item=")
    refuse_nested(sample, (name for name in taken if name is not None), source)
    unused = tuple(name for name in sample.columns if name not in taken)
    return LogLayout(*taken, unused)


def named(names: Iterable[str], known: Iterable[str]) -> str | None:
    """Return the column with the first of the known names; None if no name is known."""
    by_name = {plain(name): name for name in reversed(list(names))}
    if (exact := next((by_name[each] for each in known if each in by_name), None)) is not None:
        return exact
    endings = tuple(each for each in known if each in ("userid", "itemid", "rating", "timestamp"))
    return next((name for each, name in reversed(by_name.items()) if endings and each.endswith(endings)), None)


def plain(name: str) -> str:
    """Return a name without case, accents, blanks and signs: `User-ID` and `user_id` are `userid`."""
    if not name.isascii():
        name = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
        name = unicodedata.normalize("NFKC", name)
    return re.sub(r"[\W_]", "", name.lower())


def is_known_name(name: str) -> bool:
    """Tell whether a word is a common name of a column, so that the row that holds it is a header."""
    return any(named([name], names) is not None for names in (*NAMES.values(), *ITEM_NAMES.values()))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in names)
