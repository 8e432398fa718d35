"""JSON of golden packets, whose objects know their line, so that a mistake is named by file, line and vector."""

import json
import json.decoder
import json.scanner


class Located(dict):
    """An object of a JSON text, with `file` and `line` where it begins."""

    def where(self):
        name = f", '{self['name']}'" if isinstance(self.get("name"), str) else ""
        return f"{self.file}, line {self.line}{name}"

    def need(self, members):
        """Raises ValueError unless it has all of these members; `members`: their names and types."""
        for member, kind in members.items():
            if member not in self:
                raise ValueError(f"{self.where()}: '{member}' is missing")
            if not isinstance(self[member], kind):
                raise ValueError(f"{self.where()}: '{member}' is of the wrong type")

    def need_hex(self, *members):
        for member in members:
            try:
                bytes.fromhex("".join(str(self[member]).split()))
            except ValueError as error:
                raise ValueError(f"{self.where()}: '{member}' is not hexadecimal: {error}") from None


class Decoder(json.JSONDecoder):
    def __init__(self, file):
        super().__init__()
        self.file = file
        self.parse_object = self.located
        self.scan_once = json.scanner.py_make_scanner(self)

    def located(self, text_and_start, *rest):
        value, end = json.decoder.JSONObject(text_and_start, *rest)
        value = Located(value)
        value.file, value.line = self.file, text_and_start[0].count("\n", 0, text_and_start[1]) + 1
        return value, end


def objects(text, file):
    """The list of objects that a text is."""
    try:
        listed = Decoder(file).decode(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    if not isinstance(listed, list):
        raise ValueError(f"{file}: it is no list")
    for number, each in enumerate(listed):
        if not isinstance(each, Located):
            raise ValueError(f"{file}: item {number + 1} of the list is no object")
    return listed
