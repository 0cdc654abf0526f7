"""The tables of secrets with a form of their own: issued keys and tokens, passwords of tools.

Each kind has a name, needles without which it cannot match (searching for them is many times
faster than the expression), the expression, and an example, which benchmarks and tests fill with
random text.
``ISSUED`` are keys that begin with their issuer's prefix; the expression is the key itself.  It
matches the first few characters, so that a key is masked while it is being typed and after its end
was cut off.
``LED`` are values that something before them announces: a scheme, a flag, a tag, a call.  The
expression is what announces the value, which :mod:`speclsp.secrets.literals` reads from its first
character on: a literal, or what ``bare`` matches where there is no quote.

Sources: the issuers' documentation of their key formats, GitHub's list of supported secret scanning
patterns, and the manual pages of the tools.
"""

# ruff: noqa: E501  # a rule is one expression

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from speclsp.secrets.literal_values import (
    Judge,
    any_value,
    encoded,
    key,
    no_words,
    parameter,
    password,
    secret_word,
)
from speclsp.secrets.names import ENDS


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of secret."""

    name: str
    needles: tuple[str, ...]
    """In lower case; every match holds one of them, in any case.  Without needles the whole text is
    searched."""
    expression: re.Pattern[str]
    example: str
    """A line with fields for random text, such as ``{hex:32}`` or ``{password}``."""

    is_secret: Judge = any_value
    is_led: bool = False
    """Whether the value begins where a match ends; else it is the match, or its last group."""
    bare: re.Pattern[str] | None = None
    """What a value without quotes is; None if it needs them."""
    n_lines: int = 1
    """Lines that a match may extend over."""


_NOT_IN_A_WORD: Final = r"(?<![A-Za-z0-9_])"


def _issued(
    name: str, needles: str, expression: str, example: str, is_secret: Judge = any_value
) -> Kind:
    compiled = re.compile(_NOT_IN_A_WORD + expression, re.MULTILINE)
    return Kind(name, tuple(needles.split()), compiled, example, is_secret)


def _led(
    name: str,
    needles: str,
    lead: str,
    bare: str | None,
    example: str,
    is_secret: Judge = password,
    *,
    n_lines: int = 1,
) -> Kind:
    return Kind(
        name,
        tuple(needles.split()),
        re.compile(_NOT_IN_A_WORD + lead, re.MULTILINE),
        example,
        is_secret,
        is_led=True,
        bare=re.compile(bare, re.MULTILINE) if bare is not None else None,
        n_lines=n_lines,
    )


def _in_base64(*beginnings: str) -> Kind:
    """Return the kind of base64-encoded tokens, as in Kubernetes' secrets."""
    encoded = [b64encode(text.encode()).decode()[: len(text) * 4 // 3] for text in beginnings]
    return _issued(
        "token in base64",
        " ".join(encoded).lower(),
        rf"(?:{'|'.join(encoded)})[A-Za-z0-9+/]{{6,}}={{0,2}}",
        f"token: {encoded[0]}{{base64:40}}",
    )


# fmt: off
ISSUED: Final = (
    _issued("AWS access key", "akia asia abia acca", r"A(?:KI|SI|BI|CC)A[A-Z0-9]{6,}(?![a-z])", "AKIA{upper:16}"),
    _issued("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{6,}", "ghp_{alnum:36}"),
    _issued("GitHub", "github_pat_", r"github_pat_[A-Za-z0-9_]{6,}", "github_pat_{alnum:22}_{alnum:59}"),
    _issued("GitLab", "glpat- glptt- gldt- glrt- glft- glsoat- glcbt- glagent- gloas- glimt- glffct-",
            r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|oas|imt|ffct)-[A-Za-z0-9_\-]{6,}",
            "glpat-{url:20}"),
    _issued("GitLab", "gr1348941", r"GR1348941[A-Za-z0-9_\-]{6,}", "GR1348941{url:20}"),
    _issued("Slack", "xox", r"xox[abeoprs][\-.][\w\-.]{6,}", "xoxb-{digits:11}-{digits:12}-{alnum:24}"),
    _issued("Slack", "xapp-", r"xapp-\d-[A-Za-z0-9\-]{6,}", "xapp-1-A{upper:10}-{digits:13}-{hex:64}"),
    _issued("Slack webhook", "hooks.slack.com",
            r"hooks\.slack\.com/(?:services|workflows)/([\w/\-]{6,})",
            "https://hooks.slack.com/services/T{upper:8}/B{upper:8}/{alnum:24}"),
    _issued("Discord webhook", "/api/webhooks/",
            r"discord(?:app)?\.com/api/webhooks/([\w/\-]{6,})",
            "https://discord.com/api/webhooks/{digits:18}/{url:68}"),
    _issued("Teams webhook", "/webhook",
            r"(?:outlook\.office(?:365)?\.com/webhook|[\w\-]{1,60}\.webhook\.office\.com/webhookb2)/([\w@/\-]{6,})",
            "https://contoso.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex:32}/{uuid}"),
    _issued("Stripe", "k_live_ k_test_", r"[srp]k_(?:live|test)_[A-Za-z0-9]{6,}", "sk_live_{alnum:24}"),
    _issued("Stripe webhook", "whsec_", r"whsec_[A-Za-z0-9+/=]{6,}", "whsec_{alnum:32}"),
    _issued("OpenAI or Anthropic", "sk-", r"sk-(?:proj|ant|svcacct|admin|or|lf|None)-[\w\-]{6,}", "sk-proj-{url:60}"),
    _issued("OpenAI", "sk-", r"sk-(?![a-z]+[0-9]{0,3}(?![A-Za-z0-9]))([A-Za-z0-9]{6,})", "sk-{alnum:48}", no_words),
    _issued("Google", "aiza", r"AIza[A-Za-z0-9_\-]{6,}", "AIza{url:35}"),
    _issued("Google", "ya29.", r"ya29\.[A-Za-z0-9_\-]{6,}", "ya29.{url:60}"),
    _issued("Google", "gocspx-", r"GOCSPX-[A-Za-z0-9_\-]{6,}", "GOCSPX-{url:28}"),
    _issued("Firebase", ":apa91b", r"[\w\-]{8,}:APA91b[\w\-]*", "{url:22}:APA91b{url:134}"),
    _issued("JWT", "eyj", r"eyJ[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]*){0,4}", "eyJhbGciOiJIUzI1NiJ9.eyJ{url:40}.{url:43}"),
    _issued("npm", "npm_", r"npm_([A-Za-z0-9]{6,}+)(?!_)", "npm_{alnum:36}", no_words),
    _issued("PyPI", "pypi-", r"pypi-AgE[A-Za-z0-9_\-]{6,}", "pypi-AgEIcHlwaS5vcmc{url:60}"),
    _issued("Hugging Face", "hf_", r"hf_([A-Za-z0-9]{6,}+)(?!_)", "hf_{alnum:34}", no_words),
    _issued("Hugging Face", "api_org_", r"api_org_([A-Za-z0-9]{6,}+)(?!_)", "api_org_{alnum:34}", no_words),
    _issued("SendGrid", "sg.", r"SG\.([A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)?)", "SG.{url:22}.{url:43}", no_words),
    _issued("Mailgun", "key-", r"key-([0-9a-f]{6,32})(?![0-9a-z\-])", "key-{hex:32}", no_words),
    _issued("Mailgun", "-", r"[0-9a-f]{32}-[0-9a-f]{1,8}(?:-[0-9a-f]{0,8})?(?![0-9a-z\-])", "{hex:32}-{hex:8}-{hex:8}"),
    _issued("Mailchimp", "-us", r"[0-9a-f]{32}-us\d{0,2}(?!\d)", "{hex:32}-us14"),
    _issued("DigitalOcean", "_v1_", r"do[opr]_v1_[0-9a-f]{6,}", "dop_v1_{hex:64}"),
    _issued("Together", "tgp_v1_", r"tgp_v1_[\w\-]{6,}", "tgp_v1_{url:43}"),
    _issued("Fireworks", "fw_", r"fw_([A-Za-z0-9]{6,}+)(?!_)", "fw_{alnum:24}", no_words),
    _issued("Shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{6,}", "shpat_{hex:32}"),
    _issued("Square", "sq0", r"sq0(?:atp|csp|idp)-[\w\-]{6,}", "sq0atp-{url:22}"),
    _issued("Telegram", ":aa", r"\d{8,10}:AA[\w\-]{5,}", "{digits:9}:AA{url:33}"),
    _issued("Databricks", "dapi", r"dapi([0-9a-f]{6,})(?![g-z])", "dapi{hex:32}", no_words),
    _issued("HashiCorp Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[\w\-]{6,}", "hvs.{url:90}"),
    _issued("Terraform Cloud", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-=]*", "{alnum:14}.atlasv1.{url:60}"),
    _issued("age", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{6,}", "AGE-SECRET-KEY-1{upper:58}"),
    _issued("Nostr", "nsec1", r"nsec1[02-9ac-hj-np-z]{6,}", "nsec1{bech:58}"),
    _issued("Bitcoin", "",
            r"(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|[KL][1-9A-HJ-NP-Za-km-z]{51})(?![A-Za-z0-9])",
            "L{base58:51}", no_words),
    _issued("Atlassian", "atatt3", r"ATATT3[\w\-=]{6,}", "ATATT3{url:60}"),
    _issued("Airtable", "pat", r"pat[A-Za-z0-9]{14}\.([0-9a-f]+)", "pat{alnum:14}.{hex:64}"),
    _issued("Azure", "q~", r"[\w.~\-]{3}\dQ~[\w.~\-]{3,}", "{url:3}8Q~{url:34}"),
    _issued("Linear", "lin_api_", r"lin_api_[A-Za-z0-9]{6,}", "lin_api_{alnum:40}"),
    _issued("Notion", "ntn_ secret_", r"(?:ntn|secret(?=_\w{40}))_([A-Za-z0-9]{6,}+)(?!_)", "ntn_{alnum:46}", no_words),
    _issued("Doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{6,}", "dp.pt.{alnum:43}"),
    _issued("New Relic", "nrak-", r"NRAK-[A-Z0-9]{6,}", "NRAK-{upper:27}"),
    _issued("Grafana", "glsa_ glc_", r"(?:glsa_\w{6,}|glc_[A-Za-z0-9+/=]{6,})", "glsa_{alnum:32}_{hex:8}"),
    _issued("Postman", "pmak-", r"PMAK-[0-9a-f\-]{6,}", "PMAK-{hex:24}-{hex:34}"),
    _issued("Figma", "figd_", r"figd_[\w\-]{6,}", "figd_{url:40}"),
    _issued("Supabase", "sbp_", r"sbp_[0-9a-f]{6,}", "sbp_{hex:40}"),
    _issued("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w\-.=]{6,}", "pscale_tkn_{url:43}"),
    _issued("RubyGems", "rubygems_", r"rubygems_[0-9a-f]{6,}", "rubygems_{hex:48}"),
    _issued("Groq", "gsk_", r"gsk_([A-Za-z0-9]{6,}+)(?!_)", "gsk_{alnum:52}", no_words),
    _issued("Replicate", "r8_", r"r8_([A-Za-z0-9]{6,}+)(?!_)", "r8_{alnum:37}", no_words),
    _issued("xAI", "xai-", r"xai-([A-Za-z0-9]{6,})", "xai-{alnum:80}", no_words),
    _issued("Perplexity", "pplx-", r"pplx-([A-Za-z0-9]{6,})", "pplx-{alnum:48}", no_words),
    _issued("Docker Hub", "dckr_pat_", r"dckr_pat_[\w\-]{6,}", "dckr_pat_{url:27}"),
    _issued("Vercel", "vercel_blob_rw_", r"vercel_blob_rw_\w{6,}", "vercel_blob_rw_{alnum:16}_{alnum:30}"),
    _issued("Sentry", "sntryu_ sntrys_", r"sntry[us]_[\w+/=\-]{6,}", "sntryu_{hex:64}"),
    _issued("Netlify", "nfp_", r"nfp_[A-Za-z0-9]{6,}", "nfp_{alnum:36}"),
    _issued("Fly.io", "fm1 fm2 fo1", r"(?:fm[12][ar]?_[\w+/=,\-]{6,}|fo1_[\w\-]{6,})", "FlyV1 fm2_{base64:120}"),
    _issued("Heroku", "hrku-", r"HRKU-[\w\-]{6,}", "HRKU-{uuid}"),
    _issued("Discord", "",
            r"[MNO][A-Za-z0-9]{23,27}\.[\w\-]{6}\.[\w\-]{0,38}",
            "MTk4NjIyNDgzNDcxOTI1MjQ4.{url:6}.{url:38}", no_words),
    _issued("private key of a wallet", "0x", r"0x(?![fF]{8}|0{8})[0-9a-fA-F]{64}(?![0-9a-fA-F])", "new Wallet('0x{hex:64}')"),
    _issued("hash of a password", "$apr1$ $6$ $5$ $2 $argon2 $gy$ $7$",
            r"\$(?:2[aby]\$\d\d|argon2\w{1,2}\$v=\d+\$[\w=,]{1,60}\$[\w+/]{1,90}|(?:apr1|5|6)"
            r"\$[^\s:$\"']{1,60}|gy\$[\w./]{1,20}\$[\w./]{1,90}|7\$[\w./]{1,100})\$([A-Za-z0-9./+]{6,})",
            "joe:$apr1${alnum:8}${alnum:22}"),
    _issued("hash of a password", "$y$",
            r"\$y\$[\w./]{1,20}\$[\w./]{1,90}\$([A-Za-z0-9./]{6,})",
            "root:$y$j9T${alnum:22}${alnum:43}:19000:0:99999:7:::"),
    _issued("password before what tells", "convertto-securestring",
            r"(?<=[\"'])([^\"'\n$]{3,200})[\"']\s*\|\s*(?i:ConvertTo-SecureString)",
            '"{password}" | ConvertTo-SecureString -AsPlainText'),
    _issued("password before what tells", "password",
            r"value=[\"'](?![@$<{])([^\"'\n]{3,200})[\"'][^<>\n]{0,200}\stype=[\"']?(?i:password)",
            '<input value="{password}" type="password">'),
    # PKCS 1 and 8 of RSA, elliptic curves and Ed25519; OpenSSH; armour, encoded once more.
    _issued("beginning of a private key", "ibaa ibada ageam caqee bqydk2v b3blbnnzac1rzxktdj ls0tls1crudjti",
            r"(?:MI[IG][A-Za-z0-9+/]{1,3}IBA(?:A[JK][A-D]|DA)|MI[GH][A-Za-z0-9+/]AgEAM"
            r"|M[A-Z][A-Za-z0-9+/]CAQEE|M[A-Za-z0-9+/]{2}CAQ[AE]wBQYDK2V|b3BlbnNzaC1rZXktdj"
            r"|LS0tLS1CRUdJTi)[A-Za-z0-9+/=]{4,}",
            "key = 'MIIEpAIBAAKCAQEA{base64:30}'"),
    _in_base64(
        "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk_live_",
        "sk-proj-", "sk-ant-", "AKIA", "ASIA", "AIza", "npm_", "eyJh", "dckr_pat_",
    ),
)
# fmt: on
"""Keys that begin with their issuer's prefix, and others that their alphabet tells."""


_CHOSEN_WORD: Final = r"(?:passw(?:or)?d|passphrase)"
_DRAWN_WORD: Final = r"(?:secret|token|(?:api|private|access)[_\-]?key)"
_ATTRIBUTE: Final = (
    r"(?i:(?:key|name|id)=[\"'][^\"'\n]{0,80}",
    r"[\"'][^<>\n]{0,200}?\svalue=)(?![\"'](?:<\?|[@$]))",
)
_PROPERTY: Final = (
    r"(?P<e>\\?)\"(?i:name|key)(?P=e)\"\s*:\s*(?P=e)\"(?i:[^\"\n]{0,80}",
    r")(?P=e)\"\s*,\s*(?P=e)\"(?i:value)(?P=e)\"\s*:\s*",
)
"""What stands before and after the name of a setting whose value follows."""
_SHELL_WORD: Final = r"[^\s\"'`$<{\-\[(|;&][^\s\"'`|;&]*"
_ARGUMENT: Final = r"(?:[\"'](?:[^\"'\\\n]|\\.){0,200}[\"']|[\w.$@:\->\[\]]{1,80})[ \t]*,[ \t\n]*"
_SENTENCE: Final = (
    r"(?:(?i:[a-z]{0,20}_)?(?i:password|passphrase|passwd|pwd?|passwort|kennwort|mot\s+de\s+passe"
    r"|contraseña|пароль)|密码|密碼|口令)"
    r"(?:\s+(?:for|of|on|to|für|von|pour|de|para|для)\s+[\w.@\-]{1,40})?"
    r"(?:\s+(?i:is|was|ist|lautet|war|est|es|это)(?:\s+set\s+to)?:?\s+|\s?:\s+|\s=\s+"
    r"|\s?(?:是|为|為|：|:)\s?|\s—\s)"
)
_NO_PASSWORDS: Final = (
    r"(?!(?![a-z]*[b-df-hj-np-tv-xz]{4})(?i:\w*(?:able|al|ally|ary|ed|en|ent|ible|"
    r"ic|ing|ive|less|ly|ory|ous|ful)|absent|accept|access|active|already|also|always|and|another|at|"
    r"available|bad|been|blank|both|case|clear|correct|data|default|different|either|empty|enough|"
    r"equal|even|exact|expect\w*|false|fine|for|found|free|from|good|here|identical|ignored|in|incorrect|"
    r"invalid|just|kept|known|long|made|missing|more|most|must|never|none|not|now|null|okay|only|"
    r"passed|plain|present|private|prompt\w*|public|read|right|safe|same|secret|secure|sent|set|short|"
    r"simple|still|stored|strong|sure|text|that|the|there|this|too|true|unknown|unset|used|valid|weak|"
    r"what|when|where|which|wrong|your)\b)"
)
"""Words that follow "the password is" where none is said."""
_NO_EXPRESSION: Final = (
    r"(?![A-Za-z]+[0-9]{0,4}-[a-z])(?![A-Za-z_]\w*(?:[,;][ \t\r]*$|[ \t]*[)}\]]|[ \t]+[|&=?]))"
)
"""Not a compound such as "OAuth2-protected", nor a name that code goes on after."""
_SENTENCE_NEEDLES: Final = (
    "password passphrase passwd pw passwort kennwort passe contrase пароль Пароль 密码 密碼 口令"
)

_IN_QUERY: Final = r"[^\s&;\"'`<>{}()\[\]$%]{4,}(?:%[0-9A-Fa-f]{2}[^\s&;\"'`<>{}$%]*)*"

# fmt: off
LED: Final = (
    _led("password in a query", "password= wd=",
         r"(?<=[?&;])(?i:password|passwd|pwd)=(?![A-Za-z_$][\w.$]*\()", _IN_QUERY,
         "https://example.org/?user=a&password={password}&page=1"),
    _led("key in a query", "token= secret= sig= signature= key=",
         r"(?<=[?&;])(?i:(?:access_?|auth_?|refresh_?|sas_?)?token|(?:client_?)?secret|api_?key"
         r"|access_?key|account_?key|shared_?access_?key|signature|sig)=(?![A-Za-z_$][\w.$]*\()", _IN_QUERY,
         "https://example.org/?user=a&api_key={alnum:24}&page=1", parameter),
    _led("authorization header", "bearer",
         r"(?i:bearer)(?:[ \t]+(?=[\w.~+/\-])|[ \t]*[\"'][ \t]*[+.&][ \t]*[\"'])", r"[A-Za-z0-9._~+/=\-]{6,}",
         "Authorization: Bearer {alnum:30}", key),
    _led("authorization header", "basic",
         r"(?i:basic)(?:[ \t]+(?=[A-Za-z0-9+/])|[ \t]*[\"'][ \t]*[+.&][ \t]*[\"'])",
         r"[A-Za-z0-9+/]{6,}={0,2}(?![\w.\-])",
         "Authorization: Basic {base64:24}", encoded),
    _led("authorization header", "authorization",
         r"(?i:authorization)(?:[\"']\]?\s*[:=,]|\s*:)\s*[\"']?(?i:token|digest|apikey|bearer|basic)[ \t]+",
         r"[A-Za-z0-9._~+/=\-]{6,}",
         "Authorization: token {alnum:40}", key),
    _led("password of a command line", "-pass -pwd -token -secret -api",
         r"(?<=[\s\"'])--(?:[a-z]+-)*(?:password|passwd|pwd|passphrase|token|secret|api-?key)"
         r"(?:=|\s+|[\"']\s*,\s*(?=[\"']))(?![a-z]+[,.;:)]?(?:[ \t]+(?![-\s]|$)|[,.;:)]\s))",
         r"[^\s\"'`$<{=\-\[(|;&][^\s\"'`]{2,}",
         "backup --db-password {password}"),
    _led("password of a command line", "curl wget http",
         r"(?:curl|wget|https?)\s(?:[^\n|;]{0,200}?\s)?(?:-[A-Za-z]{0,8}[uUa]|--(?:proxy-)?(?:user|auth))[ \t=]*[\"']?"
         r"[\w.@%+\-]{1,80}:", r"[^\s\"'`$:][^\s\"'`]*",
         "curl -u admin:{password} https://example.org"),
    _led("password of a command line", "sshpass mysql",
         r"(?:sshpass\s+-p\s*|mysql(?:dump|admin|import)?\s(?:[^\n|;&]{0,200}\s)?-p)(?=[^\s\-])", _SHELL_WORD,
         "mysql -u root -p{password} shop"),
    _led("password of a command line", "login",
         r"(?:docker|podman|helm|oras|buildah|skopeo|registry|az|heroku|npm)\s(?:[\w\-]{1,20}\s){0,2}login\s(?:[^\n|;&]{0,200}\s)?-p[ \t=]*",
         _SHELL_WORD,
         "docker login -u joe -p {password} registry.example.org"),
    _led("password of a command line", "redis-cli pass:",
         r"(?:redis-cli\s(?:[^\n|;&]{0,200}\s)?-a\s+|-pass(?:in|out)?\s+pass:)", _SHELL_WORD,
         "redis-cli -a {password} ping"),
    _led("key of a command line", "--account-key --access-key",
         r"--(?:account|access)-key(?:=|\s+)", r"[A-Za-z0-9+/=]{6,}",
         "az storage --account-key {base64:64}", key),
    _led("password of PowerShell", "convertto-securestring",
         r"(?i:ConvertTo-SecureString)(?:\s+-(?:AsPlainText|Force|String))*\s+(?!-)", r"[^\s\"'`$(<|;\-][^\s\"'`|;]{2,}",
         'ConvertTo-SecureString "{password}" -AsPlainText'),
    _led("password beside a user's name", "auth= auth( networkcredential(",
         r"(?:auth=|(?:[A-Za-z]{0,20}(?:Basic|Digest|Proxy|NTLM)Auth|NetworkCredential)\()\(?\s*[\"'][^\"'\n]{1,100}[\"']\s*,\s*",
         None,
         "requests.get(url, auth=('admin', '{password}'))"),
    _led("password as an argument", "connect( login( bind( bind_s( getconnection( mysqli(",
         rf"(?:(?:login\(|(?:simple_)?bind(?:_s)?\((?=[ \t]*(?:\w|[\"'][^\"'\n]*[=@\\])))(?![ \t]*(?:null|this|undefined)\b)(?=[ \t]*[\"'\w]){_ARGUMENT}|(?:getConnection|(?:\w{{0,20}}_)?connect(?!\([ \t]*[\"'](?:(?!localhost)[\w\-]*[\"']|(?:http|ws)s?:))|mysqli)\({_ARGUMENT}{_ARGUMENT})"
         r"(?=[A-Za-z@]{0,2}[\"'][^\s\"'/]{2,80}(?:[\"'][ \t]*(?:[,)\r\n]|$)|[ \t\r]*$))", None,
         'DriverManager.getConnection(url, "joe", "{password}")'),
    _led("password of a driver's address", "@tcp( @unix(",
         r"(?<![/:\w])[\w.\-]{1,60}:(?=[^\s\"'`:]{1,200}@(?:tcp|unix)\()", r"[^\s\"'`]+?(?=@(?:tcp|unix)\()",
         'sql.Open("mysql", "root:{password}@tcp(db:3306)/shop")'),
    _led("password of a driver's address", "open(",
         r"(?:Open|Connect|NewConnector)\([ \t]*[\"']mysql[\"'][ \t]*,[ \t]*[\"'`][\w.\-]{1,60}:",
         r"[^\s\"'`]+?(?=@(?:tcp|unix)\()|[^\s\"'`]+",
         'sql.Open("mysql", "root:{password}@tcp(db:3306)/shop")'),
    # In prose a word with letters and digits, one in quotes, or the last word of a line.
    _led("password in a sentence", _SENTENCE_NEEDLES,
         rf"{_SENTENCE}(?:[\"'`](?=[^\s\"'`]+(?:[\"'`]|$))|{_NO_EXPRESSION}(?=[^\s\"'`]*[A-Za-z])(?=[\w!?@#$%^&*+\-]*[0-9]))"
         r"(?=[A-Za-z0-9!@#$%^&*+\-][\w!?@#$%^&*+\-]{3,}(?:[\s\"'`,;。，\\]|\.(?!\w)|$))",
         r"[A-Za-z0-9!@#$%^&*+\-](?:[\w!?@#$%^&*+\-]{5,}|[\w!?@#$%^&*+\-]{3,}(?=[\"'`]))",
         "# The admin password is {password}."),
    _led("password in a sentence", _SENTENCE_NEEDLES,
         rf"{_SENTENCE}(?<!= ){_NO_PASSWORDS}(?=[A-Za-z]{{6,24}}(?<=[a-z])[.\"']{{0,2}}[ \t\r]*(?:\n|\*/|$))",
         r"[A-Za-z]{6,24}",
         "# the password is {word}"),
    _led("password beside a login", "password login user credential",
         r"(?i:(?:(?<=[,/])|and|with)\s+(?:the\s+)?password\s+|(?:login|user|credentials?)\s*:\s*[\w.@\-]{1,40}"
         rf"\s*/\s*){_NO_EXPRESSION}(?=[\w!?@#$%^&*+\-]*[A-Za-z])(?=[\w!?@#$%^&*+\-]*[0-9])",
         r"[A-Za-z0-9!@#$%^+\-][\w!?@#$%^&*+\-]{5,}",
         "# Log in as admin, password {password}"),
    _led("password of a .netrc", "login",
         r"(?:(?:machine\s+[^\s\"']{1,200}|default)\s+(?:login|user)\s+[^\s\"']{1,80}\s+password\s+"
         r"|(?:login|user)\s+(?!(?:and|by|for|has|is|needs|or|the|using|via|with|without|your)\s)"
         r"[^\s\"']{1,80}\s+password\s+(?=[A-Za-z.]{0,80}[^A-Za-z\s\"'.,;:!?)]))", r"[^\s\"']+",
         "machine example.org login joe password {password}"),
    _led("password of a .netrc", "login",
         r"(?:login|user)[ \t]+[^\s\"']{1,80}[ \t]*\n[ \t]*password[ \t]+(?=[^\s\"']+[ \t\r]*$)", r"[^\s\"']+",
         "machine example.org\n  login joe\n  password {word}", n_lines=2),
    _led("password of a Terraform variable", "variable",
         rf"variable[ \t]+\"[\w\-]*(?:passw(?:or)?d|secret|token|(?:api|private)_?key){ENDS}\""
         r"[ \t]*\{(?:[^\n}]*\n){0,6}[^\n}]*?\bdefault[ \t]*=[ \t]*", None,
         'variable "db_password" {{\n  type = string\n  default = "{password}"\n}}', n_lines=8),
    # Base64 comes in groups of four letters; while it is being typed, nothing follows.
    _led("registry's login", '"auth" _auth',
         r"(?:\"auth\"\s*:\s*\"|(?<!\.)_auth\s?=\s?\"?)(?=[A-Za-z+/]{0,200}[0-9=]|[A-Za-z+/]{8,}$)",
         r"(?:[A-Za-z0-9+/]{4}){2,200}(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
         r"(?![A-Za-z0-9+/=])|[A-Za-z0-9+/]{6,}+=?(?=\s*(?:\n|\Z))",
         "_auth = {base64:24}", no_words),
    _led("registry's login", "_auth authtoken _password",
         r"(?:npm|pnpm|yarn)\s+(?:config\s+)?set\s+\S{0,200}(?i:auth|authToken|_password)[ \t=]+", r"[^\s\"'$]{4,}",
         "npm config set //registry.npmjs.org/:_authToken {uuid}", any_value),
    _led("Fernet", "fernet(",
         r"Fernet\(\s*", None,
         "Fernet(b'{url:43}=')", key),
    _led("private part of a JSON web key", '"d": "p": "q": "dp": "dq": "qi": "k":',
         r"\"(?:d|p|q|dp|dq|qi|k)\":\s*\"(?=[A-Za-z0-9_\-]{6,42}\s*$|[A-Za-z_\-]{0,200}[0-9][A-Za-z0-9_\-]*\"?)",
         r"[A-Za-z0-9_\-]{40,}(?=\")|[A-Za-z0-9_\-]{6,}$",
         '"d": "{url:43}"', no_words),
    _led("private part of an XML key", "<d> <p> <q> <inverseq>",
         r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*(?![\"'`])",
         r"[A-Za-z0-9+/=]{24,}(?=\s*<(?:/|$))|(?=[A-Z+/]*[a-z]|[A-Za-z+/]*[0-9])[A-Za-z0-9+/=]{6,}$",
         "<D>{base64:43}=</D>", no_words),
    _led("password of a host", "ansible_",
         r"ansible_\w{0,30}pass(?:word)?=", _SHELL_WORD,
         "web1 ansible_host=a ansible_ssh_pass={password}"),
    # Not what a shell does with a variable: ${password:-…}, ${password:0:8}.
    _led("password as a setting's default", "${",
         r"\$\{[\w.\-]{0,80}(?i:password|passwd|secret|token|api\.?key):(?![-?+=]|\d+(?::\d+)?\})",
         r"(?!#\{)[^}\s$][^}\n]*",
         "password: ${{db.password:{password}}}"),
    _led("password as a variable's default", "${",
         r"\$\{[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|PWD|SECRET|TOKEN)[A-Z0-9_]{0,20}:?[-=]", r"[^}\s$][^}\s$]*",
         "DB_PASSWORD=${{DB_PASSWORD:-{word}}}"),
    _led("password of a named setting", "value=",
         _CHOSEN_WORD.join(_ATTRIBUTE), None, '<add key="Password" value="{password}"/>'),
    _led("key of a named setting", "value=",
         _DRAWN_WORD.join(_ATTRIBUTE), None, '<add key="ApiToken" value="{alnum:24}"/>', secret_word),
    _led("password of a field", "password",
         r"(?i:type=[\"']?password[\"']?[^<>\n]{0,200}?\svalue=)(?![\"'](?:<\?|[@$]))", None,
         '<input type="password" name="p" value="{password}">'),
    _led("password of a named setting", '"value"',
         _CHOSEN_WORD.join(_PROPERTY), None, '"name": "DB_PASSWORD", "value": "{password}"'),
    _led("key of a named setting", '"value"',
         _DRAWN_WORD.join(_PROPERTY), None, '"name": "API_KEY", "value": "{alnum:24}"', secret_word),
    _led("password in SQL", "identified",
         r"(?:IDENTIFIED|(?i:(?:user|role|grant|to)\b[^\n]{0,200}\sidentified))(?i:\s+(?:with\s+[\w\"'`]{1,60}\s+)?(?:by|as)(?:\s+password)?)\s+",
         None,
         "CREATE USER joe IDENTIFIED BY '{password}'"),
    _led("password in SQL", "identified",
         r"(?i:(?:user|role|to)\s+[\w@.$\"'`%]{1,80}\s+identified\s+by\s+)(?![\"'`])", r"[^\s\"'`;,()<]+",
         "ALTER USER joe IDENTIFIED BY {password};"),
    _led("one-time password's seed", "otp mfa 2fa",
         r"(?i:[\w.\-]{0,30}(?:otp|mfa|2fa)[\w.\-]{0,20})[\"'\])]*\s*(?::=|[=:(,])\s*[\"']?(?=[A-Z]*[2-7]|[A-Z]{8})",
         r"(?![A-Z]+[,;)])[A-Z2-7]{16,}=*(?![A-Za-z0-9])|[A-Z2-7]{7,15}$",
         "pyotp.TOTP('{upper:32}')", any_value),
    _led("session cookie", "sess .sid cookie",
         r"(?i:[\w.\-]{0,20}(?:session(?:_?id|_?cookie|_?key|_?token)?|sess_?id|\.sid|auth_?cookie))"
         r"(?:[\"'\])]*\s*(?::=|[=:])\s*[\"']?|[\"']\s*,\s*[\"'])",
         r"[\w%.\-+/=]{16,}(?=[\s\"';,)}&]|$)|[\w%\-+/=]{7,15}$",
         "Cookie: PHPSESSID={lower:26}; theme=dark", key),
    _led("password of a .pgpass", ":54 :64 :*:",
         r"(?:[\w.\-]+|\*):(?:\d{4,5}|\*):(?:[\w.\-]+|\*):[\w.\-]+:", r"[^\s\"':]+",
         "db.example.org:5432:shop:app:{password}"),
    _led("environment variable set without a sign", "env setenv set",
         rf"(?i:env|arg|setenv|set\s+-[a-z]+)[ \t]+(?i:\w{{0,40}}(?:passwd|pwd|{_CHOSEN_WORD}|{_DRAWN_WORD}))[ \t]+"
         r"(?=[\"']?[^\s\"'=:(]{3})(?=[^\s$=(]+[ \t\r]*(?:\n|$))", r"[^\s\"'$=(]+",
         "ENV DB_PASSWORD {word}"),
    _led("password of a server's settings", "requirepass masterauth",
         r"(?:requirepass|masterauth)[ \t]+", _SHELL_WORD,
         "requirepass {password}"),
    _led("password in XML", "password passwd passphrase",
         r"(?i:<[\w:.\-]*(?:password|passwd|passphrase)(?:\s[^<>\n]{0,200})?>)(?<!/>)(?=[^<\n]*<(?:/|$)|[^\s<@:]+[ \t\r]*$)\s*",
         r"[^<\s$#{\"'`][^<\n]*",
         "<password>{password}</password>"),
    _led("secret in XML", "secret> token> apikey>",
         r"(?i:<[\w:.\-]*(?:secret|token|apikey)>)(?=[^<\n]*<(?:/|$)|[^\s<@:]+[ \t\r]*$)\s*", r"[^<\s$#{\"'`][^<\n]*",
         "<apiToken>{alnum:32}</apiToken>"),
    _led("AWS secret key beside its access key", "akia asia",
         r"A(?:KI|SI)A[A-Z0-9]{16}(?:[\s,:;|\"'`=>)]|\\[nrt]){1,20}(?=[A-Za-z0-9/+])",
         r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])|[A-Za-z0-9/+]{6,39}(?=[\"'`)\]},;\s]{0,8}$)",
         "AKIA{upper:16},{base64:40}", no_words, n_lines=2),
)
# fmt: on
"""Values that a scheme, a flag, a tag or a call before them announces."""

KINDS: Final = (*ISSUED, *LED)
