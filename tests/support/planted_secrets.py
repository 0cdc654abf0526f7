"""A hundred made-up secrets of all kinds, each in a line as real projects have them.

They are drawn from a seed, so that nothing that looks like a key stands in this repository.
"""

# ruff: noqa: E501  # a row of the table is one line of somebody's file

import random
import string
from collections.abc import Callable
from dataclasses import dataclass

ALPHANUMERIC = string.ascii_letters + string.digits
BASE64 = ALPHANUMERIC + "+/"
URL_SAFE = ALPHANUMERIC + "-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"


@dataclass(frozen=True, slots=True)
class Planted:
    """``lines`` hold ``secrets`` (texts that may not be found anywhere), in a file ``name``."""

    kind: str
    name: str
    lines: str
    secrets: tuple[str, ...]


def planted_secrets(seed: int = 1) -> list[Planted]:
    """Return 100 of them."""
    rng = random.Random(seed)

    def drawn(alphabet: str, n_chars: int) -> str:
        text = "".join(rng.choice(alphabet) for _ in range(n_chars - 2))
        # A key without any digit is too rare to count on, and no test should hang on it.
        return text[: n_chars // 2] + rng.choice(string.digits) + text[n_chars // 2 :] + "7"

    def word() -> str:
        return "".join(rng.choice(string.ascii_lowercase) for _ in range(9))

    def from_prefix(prefix: str, alphabet: str, n_chars: int) -> Callable[[], str]:
        return lambda: prefix + drawn(alphabet, n_chars)

    def password() -> str:
        return f"{word()}{rng.randrange(100, 999)}!"

    tokens: list[tuple[str, str, str, Callable[[], str]]] = [
        (
            "aws id",
            "a.py",
            'client = boto3.client("s3", aws_access_key_id="{}")',
            lambda: "AKIA" + "".join(rng.choice(UPPER) for _ in range(16)),
        ),
        (
            "aws id",
            "a.tf",
            "  access_key = {}",
            lambda: "ASIA" + "".join(rng.choice(UPPER) for _ in range(16)),
        ),
        ("aws secret", "b.py", 'AWS_SECRET_ACCESS_KEY = "{}"', from_prefix("", BASE64, 40)),
        ("aws secret", "b.sh", "export AWS_SECRET_ACCESS_KEY={}", from_prefix("", BASE64, 40)),
        (
            "github",
            "c.js",
            "const octokit = new Octokit({{ auth: '{}' }});",
            from_prefix("ghp_", ALPHANUMERIC, 36),
        ),
        ("github", "c.py", "# curl -H 'x: {}'", from_prefix("gho_", ALPHANUMERIC, 36)),
        ("github", "c.lua", 'local t = "{}"', from_prefix("ghs_", ALPHANUMERIC, 36)),
        ("github", "c.md", "Use {} to log in.", from_prefix("github_pat_", ALPHANUMERIC + "_", 82)),
        ("gitlab", "d.yml", "  token: {}", from_prefix("glpat-", URL_SAFE, 20)),
        ("gitlab", "d.py", "gl = Gitlab(url, '{}')", from_prefix("glptt-", HEX, 40)),
        ("slack", "e.py", 'WebClient("{}")', from_prefix("xoxb-", string.digits + "-", 40)),
        ("slack", "e.ts", "app.start(`{}`)", from_prefix("xapp-1-", UPPER, 50)),
        (
            "slack hook",
            "e.go",
            'post("https://hooks.slack.com/services/{}")',
            lambda: f"T{drawn(UPPER, 8)}/B{drawn(UPPER, 8)}/{drawn(ALPHANUMERIC, 24)}",
        ),
        ("stripe", "f.rb", "Stripe.api_key = '{}'", from_prefix("sk_live_", ALPHANUMERIC, 24)),
        ("stripe", "f.py", "x = ['{}']", from_prefix("rk_test_", ALPHANUMERIC, 24)),
        ("stripe", "f.js", "verify(body, '{}')", from_prefix("whsec_", ALPHANUMERIC, 32)),
        ("openai", "g.py", 'OpenAI(api_key="{}")', from_prefix("sk-proj-", URL_SAFE, 60)),
        ("openai", "g.js", "headers['x'] = '{}'", from_prefix("sk-", ALPHANUMERIC, 48)),
        (
            "anthropic",
            "g.c",
            'static const char *k = "{}";',
            from_prefix("sk-ant-api03-", URL_SAFE, 90),
        ),
        ("google", "h.js", "initMap('{}')", from_prefix("AIza", URL_SAFE, 35)),
        ("google", "h.py", "creds = '{}'", from_prefix("ya29.", URL_SAFE, 60)),
        ("google", "h.json", '  "client": "{}",', from_prefix("GOCSPX-", URL_SAFE, 28)),
        (
            "jwt",
            "i.ts",
            "const x = '{}'",
            lambda: f"eyJhbGciOiJIUzI1NiJ9.eyJ{drawn(URL_SAFE, 40)}.{drawn(URL_SAFE, 43)}",
        ),
        (
            "jwt",
            "i.http",
            "Authorization: Bearer {}",
            lambda: f"eyJhbGciOiJIUzI1NiJ9.eyJ{drawn(URL_SAFE, 40)}.{drawn(URL_SAFE, 43)}",
        ),
        (
            "bearer",
            "i.py",
            'headers = {{"Authorization": "Bearer {}"}}',
            from_prefix("", ALPHANUMERIC, 30),
        ),
        ("basic", "i.sh", "curl -H 'Authorization: Basic {}' x", from_prefix("", BASE64, 24)),
        ("npm", "j.js", "publish('{}')", from_prefix("npm_", ALPHANUMERIC, 36)),
        ("pypi", "j.py", "twine('{}')", from_prefix("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 60)),
        ("hugging face", "k.py", 'login("{}")', from_prefix("hf_", ALPHANUMERIC, 34)),
        ("sendgrid", "k.go", 'sg("{}")', lambda: f"SG.{drawn(URL_SAFE, 22)}.{drawn(URL_SAFE, 43)}"),
        ("twilio", "k.php", "$auth_token = '{}';", from_prefix("", HEX, 32)),
        ("mailgun", "k.rb", "send '{}'", from_prefix("key-", HEX, 32)),
        ("mailchimp", "k.ts", "mc('{}')", lambda: drawn(HEX, 32) + "-us14"),
        ("digitalocean", "l.py", "do('{}')", from_prefix("dop_v1_", HEX, 64)),
        ("shopify", "l.rb", "shop '{}'", from_prefix("shpat_", HEX, 32)),
        (
            "telegram",
            "l.js",
            "bot('{}')",
            lambda: f"{rng.randrange(10**8, 10**9)}:AA{drawn(URL_SAFE, 33)}",
        ),
        (
            "discord",
            "l.ts",
            "const DISCORD_TOKEN = '{}'",
            lambda: f"M{drawn(URL_SAFE, 25)}.{drawn(URL_SAFE, 6)}.{drawn(URL_SAFE, 38)}",
        ),
        ("databricks", "m.py", "dbx('{}')", from_prefix("dapi", HEX, 32)),
        ("vault", "m.hcl", "x = {}", from_prefix("hvs.", URL_SAFE, 90)),
        ("age", "m.txt", "{}", from_prefix("AGE-SECRET-KEY-1", UPPER, 58)),
        ("atlassian", "m.js", "jira('{}')", from_prefix("ATATT3", URL_SAFE, 60)),
        ("grafana", "n.py", "grafana('{}')", from_prefix("glsa_", ALPHANUMERIC, 40)),
        ("figma", "n.ts", "figma('{}')", from_prefix("figd_", URL_SAFE, 40)),
        (
            "azure",
            "n.cs",
            'var c = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core";',
            lambda: drawn(BASE64, 86) + "==",
        ),
        (
            "azure sas",
            "n.py",
            'url = "https://a.blob.core/x?sv=2020&sig={}&se=1"',
            from_prefix("", ALPHANUMERIC, 40),
        ),
        ("docker", "n.sh", "docker login -p {}", from_prefix("dckr_pat_", URL_SAFE, 27)),
    ]
    named: list[tuple[str, str, str, Callable[[], str]]] = [
        ("key by name", "o.py", 'api_key = "{}"', from_prefix("", ALPHANUMERIC, 24)),
        ("key by name", "o.js", "const apiKey = '{}';", from_prefix("", HEX, 32)),
        ("key by name", "o.ts", "  clientSecret: '{}',", from_prefix("", URL_SAFE, 40)),
        ("key by name", "o.java", 'private static final String SECRET_KEY = "{}";', from_prefix("", BASE64, 44)),
        ("key by name", "o.go", 'token := "{}"', from_prefix("", ALPHANUMERIC, 32)),
        ("key by name", "o.rs", 'let auth_token: &str = "{}";', from_prefix("", ALPHANUMERIC, 32)),
        ("key by name", "o.c", '#define API_KEY "{}"', from_prefix("", HEX, 40)),
        ("key by name", "o.cpp", 'const std::string kAccessToken{{"{}"}};', from_prefix("", ALPHANUMERIC, 32)),
        ("key by name", "o.lua", "config.signing_key = '{}'", from_prefix("", ALPHANUMERIC, 32)),
        ("key by name", "o.yml", "webhook_secret: {}", from_prefix("", ALPHANUMERIC, 32)),
        ("key by name", "o.toml", 'encryption-key = "{}"', from_prefix("", BASE64, 32)),
        ("key by name", "o.ini", "secret_key = {}", from_prefix("", ALPHANUMERIC, 50)),
        ("key by name", "o.json", '{{"refreshToken": "{}"}}', from_prefix("", URL_SAFE, 48)),
        ("key by name", "o.rb", "config.secret_key_base = '{}'", from_prefix("", HEX, 128)),
        ("key by name", "o.php", "define('AUTH_KEY', '{}');", from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o.kt", 'val accessToken: String = "{}"', from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o.swift", 'let apiKey = "{}"', from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o2.py", 'os.environ["API_TOKEN"] = "{}"', from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o3.py", "    secret_key=(\n        '{}'\n    ),", from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o4.py", 'get("api_key", "{}")', from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o5.py", 'token = """{}"""', from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o6.py", "# the old api key: {}", from_prefix("", ALPHANUMERIC, 40)),
        ("key by name", "o.xml", "<apiToken>{}</apiToken>", from_prefix("", ALPHANUMERIC, 40)),
        ("environment", "p.sh", "export SESSION_SECRET={}", from_prefix("", ALPHANUMERIC, 24)),
        ("environment", "p.py", "# DB_PASSWORD={}", password),
        ("environment", "Dockerfile", "ENV SECRET_TOKEN={}", from_prefix("", ALPHANUMERIC, 24)),
        ("environment", "docker-compose.yml", "      - POSTGRES_PASSWORD={}", password),
        ("environment", "docker-compose2.yml", "      MYSQL_ROOT_PASSWORD: {}", password),
        ("password", "q.py", 'password = "{}"', password),
        ("password", "q2.py", "connect(user='x', passwd='{}')", password),
        ("password", "q.js", 'const cfg = {{ password: "{}" }}', word),
        ("password", "q.java", 'ds.setPassword("{}");', password),
        ("password", "q.cs", 'var c = "Server=s;User Id=u;Password={};Encrypt=true";', password),
        ("password", "q.sql", "CREATE USER x IDENTIFIED BY '{}';", password),
        ("password", "q2.sql", "ALTER ROLE x WITH PASSWORD '{}';", password),
        ("password", "q.yml", "password: {}", password),
        ("password", "q.ini", "smtp_password = {}", password),
        ("password", "q.properties", "spring.datasource.password={}", password),
        ("password", "q.sh", "mysql --password={} db", password),
        ("password", "q2.sh", "curl -u admin:{} https://x", password),
        ("password", "q.xml", "<password>{}</password>", password),
        ("password", "q3.py", 'db_pass = "{}"', password),
        ("password", "q4.py", "if password == '{}':", password),
        ("password in a url", "r.py", 'url = "postgresql://app:{}@db.local:5432/app"', password),
        ("password in a url", "r.yml", "url: redis://:{}@cache:6379/0", password),
        ("password in a url", "r.js", "fetch('https://bot:{}@git.local/x.git')", word),
        ("password in a url", "r.sh", "git clone https://x-token:{}@git.local/y", password),
        ("password in a url", "r.go", 'dial("amqp://guest:{}@mq/%2f")', password),
        ("password in a query", "r2.py", 'get("https://x/y?user=a&api_key={}&z=1")', from_prefix("", ALPHANUMERIC, 24)),
    ]  # fmt: skip
    planted = []
    for kind, name, template, make in (*tokens, *named):
        secret = make()
        planted.append(
            Planted(
                kind,
                name,
                template.replace("{{", "{").replace("}}", "}").replace("{}", secret),
                (secret,),
            )
        )
    for name, label in (
        ("s.py", "RSA PRIVATE KEY"),
        ("s.js", "PRIVATE KEY"),
        ("s.txt", "OPENSSH PRIVATE KEY"),
        ("s.go", "EC PRIVATE KEY"),
        ("s.c", "PGP PRIVATE KEY BLOCK"),
    ):
        rows = [drawn(BASE64, 64) for _ in range(4)]
        opening, ending = {".py": ('KEY = """', '"""'), ".c": ('"', '"')}.get(name[1:], ("", ""))
        body = "\n".join(rows)
        lines = f"{opening}-----BEGIN {label}-----\n{body}\n-----END {label}-----{ending}"
        planted.append(Planted("private key", name, lines, tuple(rows)))
    assert len(planted) == 100, len(planted)
    return planted
