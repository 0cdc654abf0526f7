"""Forms of secrets as people and tools write them, of which any number can be drawn.

A field of a form says what is drawn: ``{hex:32}``, ``{alnum:24}``, ``{password}``.  The longest
drawn text of a line is its secret.  Nothing that looks like a key stands in this file.
"""

# ruff: noqa: E501  # a form is one line of somebody's file

from __future__ import annotations

import base64
import random
import string
from dataclasses import dataclass, field
from typing import Final

from speclsp.secrets.kinds import KINDS

_ALPHABETS: Final = {
    "alnum": string.ascii_letters + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "upper": string.ascii_uppercase + "234567",
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
    "django": "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A line as it stands in a file ``name``, with fields to be drawn."""

    kind: str
    name: str
    template: str

    def drawn(self, seed: int) -> tuple[str, str]:
        """Return a line and its secret."""
        draws = _Draws(random.Random(f"{self.kind} {self.name} {self.template} {seed}"))  # noqa: S311 - test data
        line = self.template.format_map(draws)
        return line, max((drawn.text for drawn in draws.all), key=len)


@dataclass
class _Drawn:
    name: str
    rng: random.Random
    text: str = ""

    def __format__(self, length: str) -> str:
        self.text = self._draw(length)
        return self.text

    def _draw(self, length: str) -> str:
        rng = self.rng
        if self.name == "word":
            return _word(rng)
        if self.name == "password":
            return _word(rng) + str(rng.randint(10, 999)) + rng.choice(["", "!", "#", "?"])
        if self.name == "uuid":
            return "-".join(_from("hex", n, rng) for n in (8, 4, 4, 4, 12))
        if self.name == "snowflake":
            number = str(rng.randrange(10**17, 10**18)).encode()
            return f"{base64.b64encode(number).decode()}.{_from('url', 6, rng)}.{_from('url', 38, rng)}"
        if self.name == "encoded":
            token = f"ghp_{_from('alnum', 36, rng)}"
            return base64.b64encode(token.encode()).decode()
        return _from(self.name, int(length), rng)


@dataclass
class _Draws(dict[str, object]):
    rng: random.Random
    all: list[_Drawn] = field(default_factory=list)

    def __missing__(self, name: str) -> _Drawn:
        self.all.append(_Drawn(name, self.rng))
        return self.all[-1]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(7, 10)))


def _from(name: str, n_chars: int, rng: random.Random) -> str:
    """Draw from an alphabet; a key without any digit is too rare to count on."""
    text = "".join(rng.choice(_ALPHABETS[name]) for _ in range(n_chars - 1))
    return text[: n_chars // 2] + rng.choice("234567") + text[n_chars // 2 :]


def _forms(kind: str, rows: str) -> list[Form]:
    """Return the forms of a kind: a file's name, a blank and a line each; ``⏎`` ends a line."""
    forms = []
    for row in rows.strip("\n").split("\n"):
        name, _, template = row.partition(" ")
        forms.append(Form(kind, name, template.replace("⏎", "\n")))
    return forms


WRITTEN: Final = [
    *_forms(
        "Django's SECRET_KEY",
        """
settings.py SECRET_KEY = '{django:50}'
settings.py SECRET_KEY = 'django-insecure-{django:50}'
a.py SECRET_KEY = os.environ.get("SECRET_KEY", "{django:50}")
""",
    ),
    *_forms(
        "camelCase names",
        """
a.js const dbPass = '{password}';
a.ts   apiSecret: "{password}",
a.java String userPass = "{password}";
a.go dbPass := "{password}"
a.cs var smtpPass = "{password}";
a.kt val appSecret = "{alnum:24}"
a.swift let dbPwd = "{password}"
a.js cfg.mailPass = '{password}'
""",
    ),
    *_forms(
        "Terraform variables",
        """
v.tf variable "db_password" {{⏎  type    = string⏎  default = "{password}"⏎}}
v.tf variable "admin_password" {{⏎  description = "The admin password"⏎  default     = "{password}"⏎}}
v.tf variable "api_token" {{ default = "{alnum:32}" }}
v.tf variable "root_passwd" {{⏎  type = string⏎  sensitive = true⏎⏎  default = "{password}"⏎}}
""",
    ),
    *_forms(
        "netrc and pgpass lines",
        """
a.md machine api.example.org⏎  login bob⏎  password {password}
notes.txt machine h login u password {password}
a.py # machine example.org login joe password {password}
x.txt default login anonymous password {password}
x.txt machine git.local⏎login ci⏎password {password}
a.txt db.example.org:5432:shop:app:{password}
a.md localhost:5432:*:postgres:{password}
a.sh echo "db:5432:app:app:{password}" >> ~/.pgpass
a.txt *:*:*:admin:{password}
""",
    ),
    *_forms(
        "registry's login",
        """
a.sh npm config set //registry.npmjs.org/:_authToken {uuid}
a.yml - run: npm config set //npm.pkg.github.com/:_authToken={alnum:36}
a.txt //registry.npmjs.org/:_authToken={alnum:36}
a.sh yarn config set npmAuthToken {alnum:36}
a.sh npm set //reg/:_password {alnum:24}
""",
    ),
    *_forms(
        "values separated by blanks",
        """
Dockerfile ENV DB_PASSWORD {password}
Dockerfile ENV API_KEY {alnum:32}
Dockerfile ENV DB_PASSWORD {word}
a.sh tool --db-password {password}
a.sh deploy --token {alnum:24}
a.md run `app --api-key {alnum:24}`
a.sh app --password {word} --verbose
a.py cmd = "app --secret {alnum:24}"
a.fish set -x API_TOKEN {alnum:24}
a.conf requirepass {password}
""",
    ),
    *_forms("Discord", "a.py bot.run(\"{snowflake}\")\na.js client.login('{snowflake}')"),
    *_forms(
        "private key of a wallet",
        """
a.js const wallet = new Wallet("0x{hex:64}")
a.txt PRIVATE_KEY=0x{hex:64}
h.ts accounts: ["0x{hex:64}"]
a.py account = Account.from_key("0x{HEX:64}")
""",
    ),
    *_forms(
        "token in base64",
        """
s.yaml   token2: {encoded}
a.py x = b64decode("{encoded}")
a.sh echo {encoded} | base64 -d
""",
    ),
    *_forms(
        "one-time password's seed",
        """
a.py totp_secret = "{upper:16}"
a.py pyotp.TOTP("{upper:32}")
a.js const otpSecret = "{upper:26}"
a.md otpauth://totp/Ex:bob?secret={upper:16}&issuer=Ex
a.yml mfa_seed: {upper:32}
a.py TOTP_SEED = "{upper:32}"
""",
    ),
    *_forms(
        "session cookie",
        """
a.py session_cookie = "{alnum:32}"
a.py cookies = {{"sessionid": "{lower:32}"}}
a.sh curl -b 'session={url:40}' x
a.http Cookie: PHPSESSID={lower:26}; theme=dark
a.http Set-Cookie: JSESSIONID={HEX:32}; Path=/
a.py r.cookies["connect.sid"] = "s%3A{url:32}.{alnum:43}"
a.js document.cookie = 'auth_token={url:40}'
""",
    ),
    *_forms(
        "default of an environment variable",
        """
a.py password = os.getenv("DB_PASSWORD", "{word}")
a.py x = os.environ.get("DB_PASSWORD", "{word}")
a.php define('DB_PASSWORD', '{word}');
a.php $x = getenv('DB_PASSWORD') ?: '{word}';
a.js process.env.DB_PASSWORD || '{word}'
a.js process.env.DB_PASSWORD ?? '{word}'
a.rb ENV.fetch('DB_PASSWORD', '{word}')
a.php env('DB_PASSWORD', '{word}')
a.go getEnv("DB_PASSWORD", "{word}")
a.py config("DB_PASSWORD", default="{word}")
a.py os.environ.setdefault("DB_PASSWORD", "{word}")
a.sh DB_PASSWORD=${{DB_PASSWORD:-{word}}}
""",
    ),
    *_forms(
        "Make variables",
        """
Makefile DB_PASSWORD := {word}
Makefile export DB_PASSWORD ?= {word}
Makefile API_TOKEN = {alnum:24}
a.mk PASSWORD:={password}
Makefile \tDB_PASSWORD={password} ./run
""",
    ),
    *_forms(
        "password in a sentence",
        """
a.py # the password is {word}
a.js // Password: {password}
a.py # password for staging is {password}
a.py # default password is "{word}"
a.md The password is `{word}`.
a.py # pw: {password}
a.py # root pw is {password}
a.c /* admin password = {password} */
a.md Log in as admin, password {password}
a.py # login: admin / {password}
""",
    ),
    *_forms(
        "AWS secret that begins with /",
        """
a.py aws_secret_access_key = "/{base64:39}"
a.sh export AWS_SECRET_ACCESS_KEY=/{base64:39}
a.ini aws_secret_access_key = /{base64:39}
a.js secretAccessKey: "/{base64:39}"
a.yml secret_key: /{base64:39}
""",
    ),
]
"""Forms in which the first version missed secrets."""

FORMS: Final = [
    *(Form(kind.name, "v.tf" if kind.n_lines > 2 else "a.sh", kind.example) for kind in KINDS),
    *WRITTEN,
]
