"""Forms of secrets as people and tools write them, of which any number can be drawn.

A field of a form says what is drawn: ``{hex:32}``, ``{alnum:24}``, ``{password}``.  The longest
drawn text of a line is its secret.  Nothing that looks like a key stands in this file.
"""

# ruff: noqa: E501  # a form is one line of somebody's file

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
    "bech": "023456789acdefghjklmnpqrstuvwxyz",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "django": "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A line as it stands in a file ``name``, with fields to be drawn."""

    kind: str
    name: str
    template: str
    is_told_before: bool = True
    """Whether what stands before the secret tells that it is one; else only what follows does."""

    @property
    def is_password(self) -> bool:
        """Whether people choose the secret; else it is drawn at random."""
        return "{password}" in self.template or "{word}" in self.template

    def drawn(self, seed: int) -> tuple[str, str]:
        """Return a line and its secret."""
        draws = _Draws(random.Random(f"{self.kind} {self.name} {self.template} {seed}"))
        line = self.template.format_map(draws)
        return line, max((drawn.text for drawn in draws.all), key=len)


@dataclass
class _Drawn:
    name: str
    rng: random.Random
    text: str = ""

    def __format__(self, length: str) -> str:
        drawn = self._draw(length)
        self.text = drawn[5:] if self.name == "encoded" else drawn  # "ghp_" is no secret
        return drawn

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


def forms(kind: str, rows: str, *, is_told_before: bool = True) -> list[Form]:
    """Return the forms of a kind: a file's name, a blank and a line each; ``⏎`` ends a line."""
    rows_of = []
    for row in rows.strip("\n").split("\n"):
        name, _, template = row.partition(" ")
        rows_of.append(Form(kind, name, template.replace("⏎", "\n"), is_told_before))
    return rows_of


WRITTEN: Final = [
    *forms(
        "Django's SECRET_KEY",
        """
settings.py SECRET_KEY = '{django:50}'
settings.py SECRET_KEY = 'django-insecure-{django:50}'
a.py SECRET_KEY = os.environ.get("SECRET_KEY", "{django:50}")
""",
    ),
    *forms(
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
    *forms(
        "Terraform variables",
        """
v.tf variable "db_password" {{⏎  type    = string⏎  default = "{password}"⏎}}
v.tf variable "admin_password" {{⏎  description = "The admin password"⏎  default     = "{password}"⏎}}
v.tf variable "api_token" {{ default = "{alnum:32}" }}
v.tf variable "root_passwd" {{⏎  type = string⏎  sensitive = true⏎⏎  default = "{password}"⏎}}
""",
    ),
    *forms(
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
    *forms(
        "registry's login",
        """
a.sh npm config set //registry.npmjs.org/:_authToken {uuid}
a.yml - run: npm config set //npm.pkg.github.com/:_authToken={alnum:36}
a.txt //registry.npmjs.org/:_authToken={alnum:36}
a.sh yarn config set npmAuthToken {alnum:36}
a.sh npm set //reg/:_password {alnum:24}
""",
    ),
    *forms(
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
    *forms(
        "Discord",
        "a.py bot.run(\"{snowflake}\")\na.js client.login('{snowflake}')",
        is_told_before=False,
    ),
    *forms(
        "private key of a wallet",
        """
a.js const wallet = new Wallet("0x{hex:64}")
h.ts accounts: ["0x{hex:64}"]
a.py account = Account.from_key("0x{HEX:64}")
""",
        is_told_before=False,
    ),
    *forms("private key of a wallet", "a.txt PRIVATE_KEY=0x{hex:64}"),
    *forms(
        "token in base64",
        """
s.yaml   token2: {encoded}
a.py x = b64decode("{encoded}")
a.sh echo {encoded} | base64 -d
""",
    ),
    *forms(
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
    *forms(
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
    *forms(
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
    *forms(
        "Make variables",
        """
Makefile DB_PASSWORD := {word}
Makefile export DB_PASSWORD ?= {word}
Makefile API_TOKEN = {alnum:24}
a.mk PASSWORD:={password}
Makefile \tDB_PASSWORD={password} ./run
""",
    ),
    *forms(
        "password in a sentence",
        """
a.py # the password is {word}
a.js // Password: {password}
a.py # password for staging is {password}
a.py # default password is "{word}"
a.md The password is `{word}`.
a.py # pw: {password}
a.py # root pw is {password}
""",
    ),
    *forms(
        "password in a sentence, told by its digits",
        """
a.c /* admin password = {password} */
a.md Log in as admin, password {password}
a.py # login: admin / {password}
""",
        is_told_before=False,
    ),
    *forms(
        "AWS secret that begins with /",
        """
a.py aws_secret_access_key = "/{base64:39}"
a.sh export AWS_SECRET_ACCESS_KEY=/{base64:39}
a.ini aws_secret_access_key = /{base64:39}
a.js secretAccessKey: "/{base64:39}"
a.yml secret_key: /{base64:39}
""",
    ),
    *forms(
        "escaped quotes",
        r"""
a.py password = "ab\"{password}"
a.js const password = 'it\'s {password}';
a.json "password": "x\"y{password}",
a.ipynb     "password = \"{password}\"\n",
a.ipynb     "db_password = '{password}'\n",
a.ipynb     "conn = connect(password=\"{password}\")\n",
a.ipynb     "{{\"password\": \"{password}\"}}\n"
a.ipynb      "text": ["password={password}\n"]
a.ipynb      "outputs": ["Your password is {password}\n"]
a.sh curl -d "{{\"password\": \"{password}\"}}" https://example.org
a.py body = '{{"password": "{password}"}}'
a.java String s = "{{\"password\":\"{password}\"}}";
""",
    ),
    *forms(
        "several values",
        """
a.py user, password = "bob", "{password}"
a.py password, user = "{password}", "bob"
a.py host, port, password = "h", 80, '{password}'
a.go user, password := "bob", "{password}"
a.lua local user, password = "bob", "{password}"
a.rb user, password = 'bob', '{password}'
a.sh export USER=bob PGPASSWORD={password}
a.sh FOO=1 PGPASSWORD={password} psql -h db
a.md     FOO=1 PGPASSWORD={password} psql -h db
a.sh export A=1 B=2 DB_PASSWORD={password} C=3
a.sh cd app; PGPASSWORD={password} psql
a.sh sudo -u postgres PGPASSWORD={password} psql
a.sh env A=1 API_TOKEN={alnum:24} ./run
""",
    ),
    *forms(
        "joined literals",
        r"""
a.py password = "ab" "{password}"
a.py password = "ab" + "{password}"
a.js const password = 'ab' + '{password}';
a.php $password = 'ab' . '{password}';
a.lua password = "ab" .. "{password}"
a.py password = ("ab"⏎            "{password}")
a.py token = ("x"⏎         "{alnum:32}")
a.js const password = 'ab' +⏎  '{password}';
a.java String password = "ab"⏎    + "{password}";
a.py password = "ab" \⏎    "{password}"
a.sql ALTER ROLE x WITH PASSWORD 'it''s{password}';
a.py token = "{alnum:6}" + "{alnum:24}"
""",
    ),
    *forms(
        "values of several lines",
        r"""
a.py password = QQQ{password}QQQ
a.py password = QQQ⏎{password}⏎QQQ
a.py password = QQQone⏎two⏎{password}⏎threeQQQ
a.py token = '''⏎{alnum:32}⏎'''
a.js const password = `one⏎{password}`;
a.sh PASSWORD=$(cat <<EOF⏎{password}⏎EOF⏎)
a.sh export PASSWORD=$(cat <<'END'⏎one⏎two⏎{password}⏎END⏎)
a.rb password = <<~EOS⏎  {password}⏎EOS
a.tf password = <<EOT⏎{password}⏎EOT
a.php $password = <<<TXT⏎{password}⏎TXT;
a.sh PASSWORD=ab\⏎{password}
a.properties db.password=ab\⏎    {password}
a.py password = "ab\⏎{password}"
a.yml password: |⏎  one⏎  two⏎  {password}
a.yml db_password: >-⏎    {password}
a.java String password = QQQ⏎    {password}⏎    QQQ;
""".replace("QQQ", '"' * 3),
    ),
    *forms(
        "addresses and connection strings",
        r"""
a.py dsn = "host=db user=app password={password} dbname=shop"
a.py dsn = "password={password} dbname=shop"
a.go db, err := sql.Open("postgres", "user=u password={password} dbname=d sslmode=disable")
a.conf password={password} dbname=shop
a.go sql.Open("mysql", "root:{password}@tcp(127.0.0.1:3306)/db")
a.js fetch("https://example.org/login?user=a&password={password}")
a.md postgres://app:{password}@db/shop
a.yml url: mongodb+srv://app:{password}@cluster0.example.net/
a.yml url: mysql://root:{password}@db/x
a.js const u = 'https://joe:{password}@example.org/';
a.php $u = 'mysql:\/\/app:{password}@db';
a.py url = "amqp://guest:pa/ss{password}@mq"
""".replace("\\\\\\\\", "\\\\"),
    ),
    *forms(
        "a driver's address, told by what follows",
        """
a.go dsn := "root:{password}@tcp(127.0.0.1:3306)/db"
a.yml dsn: root:{password}@tcp(db:3306)/x
""",
        is_told_before=False,
    ),
    *forms(
        "commands",
        """
a.sh curl --user admin:{password} https://x
a.sh curl -su admin:{password} https://x
a.sh curl -sS -u "admin:{password}" https://x
a.md curl --user admin:{password} https://x
a.sh curl -d "user=bob&pass={password}" https://x
a.sh curl -d 'user=bob&password={password}' https://x
a.sh curl --data user=bob --data password={password} https://x
a.md curl -d "user=bob&pass={password}" https://x
a.sh docker login -u bob -p {password}
a.sh docker login registry.example.org -p {password}
a.sh helm install x y --set db.rootPassword={password}
a.md helm upgrade x y --set a.b=c,auth.rootPassword={password}
a.sh kubectl create secret generic x --from-literal=pw={password}
a.sh kubectl create secret generic x --from-literal=user=u --from-literal=password={password}
a.sh docker run -e POSTGRES_PASSWORD={password} postgres
a.md docker run -e MYSQL_ROOT_PASSWORD={password} mysql
a.py subprocess.run(["mysql", "--password", "{password}"])
a.ps1 ConvertTo-SecureString -String "{password}" -AsPlainText -Force
a.ps1 ConvertTo-SecureString -AsPlainText "{password}" -Force
a.ps1 $p = ConvertTo-SecureString -AsPlainText -Force '{password}'
a.sql CREATE USER x IDENTIFIED WITH mysql_native_password BY '{password}';
a.sql ALTER USER x IDENTIFIED WITH caching_sha2_password BY "{password}"
""",
    ),
    *forms(
        "calls",
        """
a.rs env::var("API_KEY").unwrap_or("{alnum:32}".to_string())
a.rs std::env::var("DB_PASSWORD").unwrap_or_else(|_| "{password}".into())
a.java Optional.ofNullable(password).orElse("{password}")
a.java DriverManager.getConnection(url, "sa", "{password}");
a.java DriverManager.getConnection("jdbc:h2:mem", "sa", "{password}");
a.py pymysql.connect("localhost", "root", "{password}", "shop")
a.php mysqli_connect("localhost", "root", "{password}", "shop");
a.php new mysqli("localhost", "root", "{password}");
a.py ftp.login("joe", "{password}")
a.py server.login(user, "{password}")
a.py conn.simple_bind_s("cn=admin,dc=x", "{password}")
a.py headers["x"] = "Basic " + "{base64:24}"
a.js h.set("Authorization", "Bearer " + "{alnum:32}")
""",
    ),
    *forms(
        "tags and settings",
        """
a.html <input type="password" value="{password}">
a.html <input type="password" name="p" id="q" value='{password}'/>
a.xml <Password>{password}</Password>
a.xml <property name="password" value="{password}"/>
a.json {{"name": "DB_PASSWORD", "value": "{password}"}}
a.json {{"key":"password","value":"{password}"}}
a.conf psk="{password}"
wpa.conf     psk={password}
a.java @Value("${{db.password:{password}}}")
a.xml <db:password>{password}</db:password>
a.md password: z{password}
""",
    ),
    *forms(
        "other languages",
        """
a.py passwort = "{password}"
a.yml kennwort: {password}
a.py mot_de_passe = "{password}"
a.js const motDePasse = "{password}";
a.py contraseña = "{password}"
a.yml contrasena: {password}
a.py пароль = "{password}"
a.yml Пароль: {password}
a.py 密码 = "{password}"
a.yml 密碼: {password}
a.py 口令 = "{password}"
a.md Das Passwort ist {password}
a.md Das Kennwort lautet: {password}
a.md Le mot de passe est {password}
a.md mot de passe : {password}
a.md La contraseña es {password}
a.md Пароль: {password}
a.md 密码：{password}
a.md 密码是{password}
a.md 密碼: {password}
""",
    ),
    *forms(
        "issuers",
        """
a.py x = "vercel_blob_rw_{alnum:16}_{alnum:30}"
a.py x = "sntryu_{hex:64}"
a.py x = "nfp_{alnum:36}"
a.py x = "FlyV1 fm2_{base64:120}"
a.py x = "HRKU-{uuid}"
a.py x = "pat{alnum:14}.{hex:64}"
a.py x = "{alnum:3}8Q~{url:34}"
a.py x = "tgp_v1_{url:43}"
a.py x = "fw_{alnum:24}"
a.py x = "api_org_{alnum:34}"
a.js const t = "{url:11}:APA91b{url:134}"
a.py x = "nsec1{bech:58}"
a.sh curl https://x.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex:32}/{uuid}
a.txt root:$y$j9T${alnum:22}${alnum:43}:19000:0:99999:7:::
a.csv AKIA{upper:16},{base64:40}
a.txt AKIA{upper:16}⏎{base64:40}
a.py keys = ("AKIA{upper:16}", "{base64:40}")
""",
    ),
    *forms(
        "issuers, told by the whole",
        """
a.py x = "{hex:32}-{hex:8}-{hex:8}"
a.py x = "K{base58:51}"
""",
        is_told_before=False,
    ),
]
"""Forms in which earlier versions missed secrets."""

TOLD_BY_THE_WHOLE: Final = (
    "Mailgun", "Mailchimp", "Bitcoin", "password beside a login", "password before what tells", "private key of a wallet", "password of a driver's address",
)  # fmt: skip
"""Kinds of which neither a name nor a prefix tells before they are complete, or nearly."""

FORMS: Final = [
    *(
        Form(
            kind.name,
            "v.tf" if kind.n_lines > 2 else "a.sh",
            kind.example,
            kind.name not in TOLD_BY_THE_WHOLE,
        )
        for kind in KINDS
    ),
    *WRITTEN,
]
