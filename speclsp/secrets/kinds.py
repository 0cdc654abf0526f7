"""The table of secrets with a form of their own: issued keys and tokens, passwords of tools.

Each kind has a name, needles without which it cannot match (searching for them is many times
faster than the expression), the expression, and an example, which benchmarks and tests fill with
random text.
The shortest match is shorter than a real key, so that a key is masked while it is being typed and
after its end was cut off.

Sources: the issuers' documentation of their key formats, GitHub's list of supported secret scanning
patterns, and the manual pages of the tools.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of secret: the last group of a match, or all of a match without groups."""

    name: str
    needles: tuple[str, ...]
    """In lower case; every match holds one of them, in any case.  Without needles the whole text is
    searched."""
    expression: re.Pattern[str]
    example: str
    """A line with fields for random text, such as ``{hex:32}`` or ``{password}``."""

    n_lines: int = 1
    """Lines that a match may extend over."""

    @property
    def is_password(self) -> bool:
        """Whether people choose it: then placeholders and variables do not count."""
        return self.name.startswith("password")


_NOT_IN_A_WORD: Final = r"(?<![A-Za-z0-9_])"
_SENTENCE: Final = (
    r"(?:(?i:[a-z]{0,20}_)?(?i:password|passphrase|passwd|pwd?))"
    r"(?:\s+(?:for|of|on|to)\s+[\w.@\-]{1,40})?(?:\s+(?:is|was)(?:\s+set\s+to)?:?|:|\s=)\s+"
)


def _kind(name: str, needles: str, expression: str, example: str, *, n_lines: int = 1) -> Kind:
    compiled = re.compile(_NOT_IN_A_WORD + expression, re.MULTILINE)
    return Kind(name, tuple(needles.split()), compiled, example, n_lines)


def _in_base64(*beginnings: str) -> Kind:
    """Return the kind of base64-encoded tokens, as in Kubernetes' secrets."""
    encoded = [b64encode(text.encode()).decode()[: len(text) * 4 // 3] for text in beginnings]
    return _kind(
        "token in base64",
        " ".join(encoded).lower(),
        rf"(?:{'|'.join(encoded)})[A-Za-z0-9+/]{{12,}}={{0,2}}",
        f"token: {encoded[0]}{{base64:40}}",
    )


KINDS: Final = (
    _kind(
        "AWS access key",
        "akia asia abia acca",
        r"A(?:KI|SI|BI|CC)A[A-Z0-9]{8,}(?![a-z])",
        "AKIA{upper:16}",
    ),
    _kind("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{6,}", "ghp_{alnum:36}"),
    _kind(
        "GitHub", "github_pat_", r"github_pat_[A-Za-z0-9_]{6,}", "github_pat_{alnum:22}_{alnum:59}"
    ),
    _kind(
        "GitLab",
        "glpat- glptt- gldt- glrt- glft- glsoat- glcbt- glagent- gloas- glimt- glffct-",
        r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|oas|imt|ffct)-[A-Za-z0-9_\-]{6,}",
        "glpat-{url:20}",
    ),
    _kind("GitLab", "gr1348941", r"GR1348941[A-Za-z0-9_\-]{6,}", "GR1348941{url:20}"),
    _kind(
        "Slack", "xox", r"xox[abeoprs][\-.][\w\-.]{6,}", "xoxb-{digits:11}-{digits:12}-{alnum:24}"
    ),
    _kind(
        "Slack", "xapp-", r"xapp-\d-[A-Za-z0-9\-]{6,}", "xapp-1-A{upper:10}-{digits:13}-{hex:64}"
    ),
    _kind(
        "Slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows)/([\w/\-]{8,})",
        "https://hooks.slack.com/services/T{upper:8}/B{upper:8}/{alnum:24}",
    ),
    _kind(
        "Discord webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/([\w/\-]{8,})",
        "https://discord.com/api/webhooks/{digits:18}/{url:68}",
    ),
    _kind(
        "Stripe", "k_live_ k_test_", r"[srp]k_(?:live|test)_[A-Za-z0-9]{6,}", "sk_live_{alnum:24}"
    ),
    _kind("Stripe webhook", "whsec_", r"whsec_[A-Za-z0-9+/=]{8,}", "whsec_{alnum:32}"),
    _kind(
        "OpenAI or Anthropic",
        "sk-",
        r"sk-(?:(?:proj|ant|svcacct|admin|or|lf|None)-[\w\-]{8,}|[A-Za-z0-9]{20,})",
        "sk-proj-{url:60}",
    ),
    _kind("Google", "aiza", r"AIza[A-Za-z0-9_\-]{8,}", "AIza{url:35}"),
    _kind("Google", "ya29.", r"ya29\.[A-Za-z0-9_\-]{8,}", "ya29.{url:60}"),
    _kind("Google", "gocspx-", r"GOCSPX-[A-Za-z0-9_\-]{8,}", "GOCSPX-{url:28}"),
    _kind(
        "JWT",
        "eyj",
        r"eyJ[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]*){0,4}",
        "eyJhbGciOiJIUzI1NiJ9.eyJ{url:40}.{url:43}",
    ),
    _kind(
        "Fernet",
        "fernet(",
        r"Fernet\(\s*b?[\"']([A-Za-z0-9_\-+/]{8,}={0,2})",
        "Fernet(b'{url:43}=')",
    ),
    _kind("npm", "npm_", r"npm_[A-Za-z0-9]{20,}", "npm_{alnum:36}"),
    _kind("PyPI", "pypi-", r"pypi-AgE[A-Za-z0-9_\-]{8,}", "pypi-AgEIcHlwaS5vcmc{url:60}"),
    _kind("Hugging Face", "hf_", r"hf_[A-Za-z0-9]{20,}", "hf_{alnum:34}"),
    _kind("SendGrid", "sg.", r"SG\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}", "SG.{url:22}.{url:43}"),
    _kind("Mailgun", "key-", r"key-[0-9a-f]{32}(?![0-9a-z])", "key-{hex:32}"),
    _kind("Mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}(?!\d)", "{hex:32}-us14"),
    _kind("DigitalOcean", "_v1_", r"do[opr]_v1_[0-9a-f]{8,}", "dop_v1_{hex:64}"),
    _kind("Shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{8,}", "shpat_{hex:32}"),
    _kind("Square", "sq0", r"sq0(?:atp|csp|idp)-[\w\-]{8,}", "sq0atp-{url:22}"),
    _kind("Telegram", ":aa", r"\d{8,10}:AA[\w\-]{30,}", "{digits:9}:AA{url:33}"),
    _kind("Databricks", "dapi", r"dapi[0-9a-f]{32}", "dapi{hex:32}"),
    _kind("HashiCorp Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[\w\-]{12,}", "hvs.{url:90}"),
    _kind(
        "Terraform Cloud",
        ".atlasv1.",
        r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-=]{8,}",
        "{alnum:14}.atlasv1.{url:60}",
    ),
    _kind("age", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{8,}", "AGE-SECRET-KEY-1{upper:58}"),
    _kind("Atlassian", "atatt3", r"ATATT3[\w\-=]{8,}", "ATATT3{url:60}"),
    _kind("Linear", "lin_api_", r"lin_api_[A-Za-z0-9]{8,}", "lin_api_{alnum:40}"),
    _kind(
        "Notion",
        "ntn_ secret_",
        r"(?:ntn_[A-Za-z0-9]{20,}|secret_[A-Za-z0-9]{40,})",
        "ntn_{alnum:46}",
    ),
    _kind("Doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{8,}", "dp.pt.{alnum:43}"),
    _kind("New Relic", "nrak-", r"NRAK-[A-Z0-9]{8,}", "NRAK-{upper:27}"),
    _kind(
        "Grafana",
        "glsa_ glc_",
        r"(?:glsa_\w{8,}|glc_[A-Za-z0-9+/=]{16,})",
        "glsa_{alnum:32}_{hex:8}",
    ),
    _kind("Postman", "pmak-", r"PMAK-[0-9a-f\-]{8,}", "PMAK-{hex:24}-{hex:34}"),
    _kind("Figma", "figd_", r"figd_[\w\-]{8,}", "figd_{url:40}"),
    _kind("Supabase", "sbp_", r"sbp_[0-9a-f]{8,}", "sbp_{hex:40}"),
    _kind("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w\-.=]{8,}", "pscale_tkn_{url:43}"),
    _kind("RubyGems", "rubygems_", r"rubygems_[0-9a-f]{8,}", "rubygems_{hex:48}"),
    _kind("Groq", "gsk_", r"gsk_[A-Za-z0-9]{20,}", "gsk_{alnum:52}"),
    _kind("Replicate", "r8_", r"r8_[A-Za-z0-9]{20,}", "r8_{alnum:37}"),
    _kind("xAI", "xai-", r"xai-[A-Za-z0-9]{20,}", "xai-{alnum:80}"),
    _kind("Perplexity", "pplx-", r"pplx-[A-Za-z0-9]{20,}", "pplx-{alnum:48}"),
    _kind("Docker Hub", "dckr_pat_", r"dckr_pat_[\w\-]{8,}", "dckr_pat_{url:27}"),
    _kind(
        "password in a URL",
        "://",
        r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://[^\s/:@\"'<>]{0,200}:([^\s\"'<>]{1,500})@",
        "postgresql://app:{password}@db.example.org/shop",
    ),
    _kind(
        "password in a query",
        "password= wd= token= secret= sig= signature= key=",
        r"(?<=[?&;])(?i:password|passwd|pwd|(?:access_?|auth_?|refresh_?|sas_?)?token|(?:client_?)?"
        r"secret|api_?key|access_?key|account_?key|shared_?access_?key|signature|sig)="
        r"(?![A-Za-z_$][\w.$]*\()"
        r"([^\s&;\"'`<>{}$%]{4,}(?:%[0-9A-Fa-f]{2}[^\s&;\"'`<>{}$%]*)*)",
        "https://example.org/?user=a&api_key={alnum:24}&page=1",
    ),
    _kind(
        "password in a connection string",
        "password= pwd= accountkey= sharedaccesskey=",
        r"(?i:password|pwd|accountkey|sharedaccesskey)\s?=\s?(?![A-Za-z_$][\w.$]*\()"
        r"([^;\s\"'`]+)(?=;|\"|'|`)",
        "Server=s;User Id=u;Password={password};Encrypt=true",
    ),
    _kind(
        "authorization header",
        "bearer basic",
        r"(?i:bearer|basic)[ \t]+(?=[A-Za-z._~+/\-]*[0-9=])([A-Za-z0-9._~+/=\-]{8,})",
        "Authorization: Bearer {alnum:30}",
    ),
    _kind(
        "password of a command line",
        "-pass -pwd -token -secret -api",
        r"(?<=[\s\"'])--(?:[a-z]+-)*(?:password|passwd|pwd|passphrase|token|secret|api-?key)"
        r"(?:=|\s+|\"\s*,\s*\"|'\s*,\s*')(?![a-z]+[,.;:)]?(?:\s(?!-)|$))([^\s\"'$<{=\-\[(][^\s\"']{3,})",
        "backup --db-password {password}",
    ),
    _kind(
        "password of a command line",
        "curl wget",
        r"-u[ \t=]*[\"']?[\w.@\-]+:([^\s\"'$:]{3,})(?=[\s\"']|$)",
        "curl -u admin:{password} https://example.org",
    ),
    _kind(
        "password of a command line",
        "sshpass mysql",
        r"(?:sshpass\s+-p\s*|mysql(?:dump|admin|import)?\s(?:[^\n|;&]{0,200}\s)?-p)[\"']?"
        r"([^\s\"'$\-][^\s\"']{2,})",
        "mysql -u root -p{password} shop",
    ),
    _kind(
        "password beside a user's name",
        "auth= auth( networkcredential(",
        r"(?:auth=|(?:[A-Za-z]{0,20}(?:Basic|Digest|Proxy|NTLM)Auth|NetworkCredential)\()\(?\s*[\"'][^\"'\n]{1,100}[\"']\s*,\s*"
        r"[\"']([^\"'\n]{3,})[\"']",
        "requests.get(url, auth=('admin', '{password}'))",
    ),
    # In prose a word with letters and digits, one in quotes, or the last word of a line.
    _kind(
        "password in a sentence",
        "password passphrase passwd pw",
        rf"{_SENTENCE}[\"'`]?(?![a-z]+[0-9]{{0,3}}-[a-z])(?=[^\s\"'`]*[A-Za-z])(?=[^\s\"'`]*[0-9])"
        r"([A-Za-z0-9!@#$%^&*+\-][\w!?@#$%^&*+\-]{5,})(?=[\s\"'`.,;]|$)",
        "# The admin password is {password}.",
    ),
    _kind(
        "password in a sentence",
        "password passphrase passwd pw",
        rf"{_SENTENCE}([\"'`])([^\s\"'`]{{4,}})\1",
        "The password for staging is `{word}`.",
    ),
    _kind(
        "password in a sentence",
        "password passphrase passwd",
        r"(?i:password|passphrase|passwd)\s+(?:is|was):?\s+(?!(?i:\w*(?:able|al|ally|ary|ed|en|ent|ible|"
        r"ic|ing|ive|less|ly|ory|ous|ful)|absent|accept|access|active|already|also|always|and|another|at|"
        r"available|bad|been|blank|both|case|clear|correct|data|default|different|either|empty|enough|"
        r"equal|even|exact|expect\w*|false|fine|for|found|free|from|good|here|identical|ignored|in|incorrect|"
        r"invalid|just|kept|known|long|made|missing|more|most|must|never|none|not|now|null|okay|only|"
        r"passed|plain|present|private|prompt\w*|public|read|right|safe|same|secret|secure|sent|set|short|"
        r"simple|still|stored|strong|sure|text|that|the|there|this|too|true|unknown|unset|used|valid|weak|"
        r"what|when|where|which|wrong|your)\b)([a-z]{5,24})(?=[.\"']{0,2}[ \t\r]*(?:\n|\*/|$))",
        "# the password is {word}",
    ),
    _kind(
        "password in a sentence",
        "password login user credential",
        r"(?i:(?:(?<=[,/])|and|with)\s+(?:the\s+)?password\s+|(?:login|user|credentials?)\s*:\s*[\w.@\-]{1,40}"
        r"\s*/\s*)(?=[\w!?@#$%^&*+\-]*[A-Za-z])(?=[\w!?@#$%^&*+\-]*[0-9])([A-Za-z0-9!@#$%^+\-][\w!?@#$%^&*+\-]{5,})",
        "# Log in as admin, password {password}",
    ),
    _kind(
        "password of a .netrc",
        "login",
        r"(?:(?:machine\s+[^\s\"']{1,200}|default)\s+(?:login|user)\s+[^\s\"']{1,80}\s+password\s+"
        r"|(?:login|user)\s+(?!(?:and|by|for|has|is|needs|or|the|using|via|with|without|your)\s)"
        r"[^\s\"']{1,80}\s+password\s+(?=[A-Za-z.]{0,80}[^A-Za-z\s\"'.,;:!?)]))([^\s\"']{3,})",
        "machine example.org login joe password {password}",
    ),
    _kind(
        "password of a .netrc",
        "login",
        r"(?:login|user)[ \t]+[^\s\"']{1,80}[ \t]*\n[ \t]*password[ \t]+([^\s\"']{3,})[ \t\r]*$",
        "machine example.org\n  login joe\n  password {word}",
        n_lines=2,
    ),
    _kind(
        "password of a Terraform variable",
        "variable",
        r"variable[ \t]+\"[\w\-]*(?:passw(?:or)?d|secret|token|(?:api|private)_?key)[\w\-]*\""
        r"[ \t]*\{(?:[^\n}]*\n){0,6}[^\n}]*?\bdefault[ \t]*=[ \t]*\"([^\"\n]{3,})\"",
        'variable "db_password" {{\n  type = string\n  default = "{password}"\n}}',
        n_lines=8,
    ),
    _kind(
        "registry's login",
        '"auth" _auth',
        # Base64 comes in groups of four letters; while it is being typed, nothing follows.
        r"(?:\"auth\"\s*:\s*\"|(?<!\.)_auth\s?=\s?\"?)(?=[A-Za-z+/]{0,200}[0-9=])"
        r"((?:[A-Za-z0-9+/]{4}){2,200}(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
        r"(?![A-Za-z0-9+/=])|[A-Za-z0-9+/]{12,}+(?=\s*(?:\n|\Z)))",
        "_auth = {base64:24}",
    ),
    _kind(
        "hash of a password",
        "$apr1$ $6$ $2 $argon2",
        r"\$(?:2[aby]\$\d\d|argon2\w{1,2}\$v=\d+\$[\w=,]{1,60}\$[\w+/]{1,90}|(?:apr1|6)"
        r"\$[^\s:$\"']{1,60})\$([A-Za-z0-9./+]{20,})",
        "joe:$apr1${alnum:8}${alnum:22}",
    ),
    _kind(
        "private part of a JSON web key",
        '"d": "p": "q": "dp": "dq": "qi": "k":',
        r"\"(?:d|p|q|dp|dq|qi|k)\":\s*\"(?=[A-Za-z_\-]{0,200}[0-9])([A-Za-z0-9_\-]{40,})\"",
        '"d": "{url:43}"',
    ),
    _kind(
        "private part of an XML key",
        "<d> <p> <q> <inverseq>",
        r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*([A-Za-z0-9+/=]{24,})\s*</",
        "<D>{base64:43}=</D>",
    ),
    _kind(
        "authorization header",
        "authorization",
        r"(?i:authorization)(?:[\"']\]?\s*[:=,]|\s*:)\s*[\"']?(?i:token|digest|apikey)[ \t]+"
        r"(?=[A-Za-z._~+/\-]{0,200}[0-9=])([A-Za-z0-9._~+/=\-]{8,})",
        "Authorization: token {alnum:40}",
    ),
    _kind(
        "key of a command line",
        "--account-key --access-key",
        r"--(?:account|access)-key(?:=|\s+)[\"']?([A-Za-z0-9+/=]{16,})",
        "az storage --account-key {base64:64}",
    ),
    _kind(
        "password of a command line",
        "redis-cli pass:",
        r"(?:redis-cli\s(?:[^\n|;&]{0,200}\s)?-a\s+|-pass(?:in|out)?\s+pass:)[\"']?"
        r"([^\s\"'$\-][^\s\"']{2,})",
        "redis-cli -a {password} ping",
    ),
    _kind(
        "password of a host",
        "ansible_",
        r"ansible_\w{0,30}pass(?:word)?=[\"']?([^\s\"']{3,})",
        "web1 ansible_host=a ansible_ssh_pass={password}",
    ),
    _kind(
        "password as a setting's default",
        "password:",
        # Not what a shell does with a variable: ${password:-…}, ${password:0:8}.
        r"\$\{[\w.\-]{0,80}password:(?![-?+=]|\d+(?::\d+)?\})([^}\s$]{3,})\}",
        "password: ${{db.password:{password}}}",
    ),
    _kind(
        "password of PowerShell",
        "convertto-securestring",
        r"(?i:ConvertTo-SecureString)\s+(?:-String\s+)?[\"']([^\"'\n$]{3,})",
        'ConvertTo-SecureString "{password}" -AsPlainText',
    ),
    _kind(
        "password of a named setting",
        'value="',
        r"(?i:(?:key|name)=\"[^\"\n]{0,80}(?:passw(?:or)?d|secret|token|api_?key)\"\s+value=\")"
        r"(?!<\?|[@$])([^\"\n]{3,})\"",
        '<add key="Password" value="{password}"/>',
    ),
    _kind(
        "password of a named setting",
        '"value"',
        r"\"(?i:name|key)\"\s*:\s*\"(?i:[^\"\n]{0,80}(?:passw(?:or)?d|secret|token|api_?key))\""
        r"\s*,\s*\"(?i:value)\"\s*:\s*\"([^\"\n]{3,})\"",
        '"name": "DB_PASSWORD", "value": "{password}"',
    ),
    _kind(
        "password in SQL",
        "identified",
        r"(?i:identified\s+by(?:\s+password)?)\s+'([^']+)",
        "CREATE USER joe IDENTIFIED BY '{password}'",
    ),
    _kind(
        "Discord",
        "",
        r"[MNO][A-Za-z0-9]{23,27}\.[\w\-]{6}\.[\w\-]{20,38}",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.{url:6}.{url:38}",
    ),
    _kind(
        "private key of a wallet",
        "0x",
        r"0x(?![fF]{8}|0{8})[0-9a-fA-F]{64}(?![0-9a-fA-F])",
        "new Wallet('0x{hex:64}')",
    ),
    _kind(
        "one-time password's seed",
        "otp mfa 2fa",
        r"(?i:[\w.\-]{0,30}(?:otp|mfa|2fa)[\w.\-]{0,20})[\"'\])]*\s*(?::=|[=:(,])\s*[\"']?"
        r"([A-Z2-7]{16,}=*)(?![A-Za-z0-9])",
        "pyotp.TOTP('{upper:32}')",
    ),
    _kind(
        "session cookie",
        "sess .sid cookie",
        r"(?i:[\w.\-]{0,20}(?:session(?:_?id|_?cookie|_?key|_?token)?|sess_?id|\.sid|auth_?cookie))"
        r"[\"'\])]*\s*(?::=|[=:,])\s*[\"']?(?=[A-Za-z%._\-+/]{0,40}[0-9])([\w%.\-+/=]{16,})(?=[\s\"';,)}&]|$)",
        "Cookie: PHPSESSID={lower:26}; theme=dark",
    ),
    _kind(
        "password of a .pgpass",
        ":54 :64 :*:",
        r"(?:[\w.\-]+|\*):(?:\d{2,5}|\*):(?:[\w.\-]+|\*):[\w.\-]+:([^\s\"':]{3,})(?=[\"'\s]|$)",
        "db.example.org:5432:shop:app:{password}",
    ),
    _kind(
        "registry's login",
        "_auth authtoken _password",
        r"(?:npm|pnpm|yarn)\s+(?:config\s+)?set\s+\S{0,200}(?i:auth|authToken|_password)[ \t=]+"
        r"[\"']?([^\s\"'$]{6,})",
        "npm config set //registry.npmjs.org/:_authToken {uuid}",
    ),
    _kind(
        "environment variable set without a sign",
        "env setenv set",
        r"(?i:env|arg|setenv|set\s+-[a-z]+)[ \t]+"
        r"(?i:\w{0,40}(?:password|passwd|pwd|secret|token|api_?key))[ \t]+"
        r"[\"']?(?=[^\s\"'=:(]{3})([^\s\"'$=(]+)(?=[\"']?[ \t\r]*(?:\n|$))",
        "ENV DB_PASSWORD {word}",
    ),
    _kind(
        "password of a server's settings",
        "requirepass masterauth",
        r"(?:requirepass|masterauth)[ \t]+[\"']?([^\s\"']{3,})",
        "requirepass {password}",
    ),
    _kind(
        "password as a variable's default",
        "${",
        r"\$\{[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|PWD|SECRET|TOKEN)[A-Z0-9_]{0,20}:?[-=]([^}\s$]{3,})\}",
        "DB_PASSWORD=${{DB_PASSWORD:-{word}}}",
    ),
    _kind(
        "password in XML",
        "password> passwd> secret> token> apikey> passphrase>",
        r"(?i:<[\w:.\-]*(?:password|passwd|secret|token|apikey|passphrase)>)\s*([^<\s$#{][^<]*)<",
        "<password>{password}</password>",
    ),
    _kind(
        "beginning of a private key",
        "ibaa ibada ageam caqee bqydk2v b3blbnnzac1rzxktdj ls0tls1crudjti",
        # PKCS 1 and 8 of RSA, elliptic curves and Ed25519; OpenSSH; armour, encoded once more.
        r"(?:MI[IG][A-Za-z0-9+/]{1,3}IBA(?:A[JK][A-D]|DA)|MI[GH][A-Za-z0-9+/]AgEAM"
        r"|M[A-Z][A-Za-z0-9+/]CAQEE|M[A-Za-z0-9+/]{2}CAQ[AE]wBQYDK2V|b3BlbnNzaC1rZXktdj"
        r"|LS0tLS1CRUdJTi)[A-Za-z0-9+/=]{4,}",
        "key = 'MIIEpAIBAAKCAQEA{base64:30}'",
    ),
    _in_base64(
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "sk_live_",
        "sk-proj-",
        "sk-ant-",
        "AKIA",
        "ASIA",
        "AIza",
        "npm_",
        "eyJh",
        "dckr_pat_",
    ),
)
