"""Keys and tokens that are known by how they look, whatever stands around them.

Each row names the texts without which it cannot match: searching for those is many times faster
than the expression.  Least lengths are shorter than the real ones, so that a key is known as one
while it is still being typed or after its end was cut off.

Sources of the forms: the issuers' documentation of their key formats, and GitHub's list of
supported secret scanning patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """One kind of key.  Of a match the group 1 is secret where there is one, else all."""

    kind: str
    needles: tuple[str, ...]
    """In lower case; one of them stands in the text, in any case, wherever it matches."""
    expression: re.Pattern[str]


_NOT_IN_A_WORD: Final = r"(?<![A-Za-z0-9_])"


def _row(kind: str, needles: str, expression: str) -> TokenPattern:
    return TokenPattern(kind, tuple(needles.split()), re.compile(_NOT_IN_A_WORD + expression))


TOKEN_PATTERNS: Final = (
    _row(
        "AWS access key",
        "akia asia abia acca",
        r"A(?:KI|SI|BI|CC)A[A-Z0-9]{8,}(?![a-z])",
    ),
    _row("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{6,}"),
    _row("GitHub", "github_pat_", r"github_pat_[A-Za-z0-9_]{6,}"),
    _row(
        "GitLab",
        "glpat- glptt- gldt- glrt- glft- glsoat- glcbt- glagent- gloas- glimt- glffct-",
        r"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent|oas|imt|ffct)-[A-Za-z0-9_\-]{6,}",
    ),
    _row("GitLab", "gr1348941", r"GR1348941[A-Za-z0-9_\-]{6,}"),
    _row("Slack", "xox", r"xox[abeoprs][\-.][\w\-.]{6,}"),
    _row("Slack", "xapp-", r"xapp-\d-[A-Za-z0-9\-]{6,}"),
    _row(
        "Slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows)/([\w/\-]{8,})",
    ),
    _row("Discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/([\w/\-]{8,})"),
    _row(
        "Stripe",
        "k_live_ k_test_",
        r"[srp]k_(?:live|test)_[A-Za-z0-9]{6,}",
    ),
    _row("Stripe webhook", "whsec_", r"whsec_[A-Za-z0-9+/=]{8,}"),
    _row(
        "OpenAI or Anthropic",
        "sk-",
        r"sk-(?:(?:proj|ant|svcacct|admin|or|lf|None)-[\w\-]{8,}|[A-Za-z0-9]{20,})",
    ),
    _row("Google", "aiza", r"AIza[A-Za-z0-9_\-]{8,}"),
    _row("Google", "ya29.", r"ya29\.[A-Za-z0-9_\-]{8,}"),
    _row("Google", "gocspx-", r"GOCSPX-[A-Za-z0-9_\-]{8,}"),
    _row("JWT", "eyj", r"eyJ[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]*){0,4}"),
    _row("Fernet", "fernet(", r"Fernet\(\s*b?[\"']([A-Za-z0-9_\-+/]{8,}={0,2})"),
    _row("npm", "npm_", r"npm_[A-Za-z0-9]{20,}"),
    _row("PyPI", "pypi-", r"pypi-AgE[A-Za-z0-9_\-]{8,}"),
    _row("Hugging Face", "hf_", r"hf_[A-Za-z0-9]{20,}"),
    _row("SendGrid", "sg.", r"SG\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}"),
    _row("Mailgun", "key-", r"key-[0-9a-f]{32}(?![0-9a-z])"),
    _row("Mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    _row("DigitalOcean", "_v1_", r"do[opr]_v1_[0-9a-f]{8,}"),
    _row("Shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{8,}"),
    _row("Square", "sq0", r"sq0(?:atp|csp|idp)-[\w\-]{8,}"),
    _row("Telegram", ":aa", r"\d{8,10}:AA[\w\-]{30,}"),
    _row("Databricks", "dapi", r"dapi[0-9a-f]{32}"),
    _row("HashiCorp Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[\w\-]{12,}"),
    _row("Terraform Cloud", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-=]{8,}"),
    _row("age", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{8,}"),
    _row("Atlassian", "atatt3", r"ATATT3[\w\-=]{8,}"),
    _row("Linear", "lin_api_", r"lin_api_[A-Za-z0-9]{8,}"),
    _row("Notion", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{20,}|secret_[A-Za-z0-9]{40,})"),
    _row("Doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{8,}"),
    _row("New Relic", "nrak-", r"NRAK-[A-Z0-9]{8,}"),
    _row("Grafana", "glsa_ glc_", r"(?:glsa_\w{8,}|glc_[A-Za-z0-9+/=]{16,})"),
    _row("Postman", "pmak-", r"PMAK-[0-9a-f\-]{8,}"),
    _row("Figma", "figd_", r"figd_[\w\-]{8,}"),
    _row("Supabase", "sbp_", r"sbp_[0-9a-f]{8,}"),
    _row("PlanetScale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w\-.=]{8,}"),
    _row("RubyGems", "rubygems_", r"rubygems_[0-9a-f]{8,}"),
    _row("Groq", "gsk_", r"gsk_[A-Za-z0-9]{20,}"),
    _row("Replicate", "r8_", r"r8_[A-Za-z0-9]{20,}"),
    _row("xAI", "xai-", r"xai-[A-Za-z0-9]{20,}"),
    _row("Perplexity", "pplx-", r"pplx-[A-Za-z0-9]{20,}"),
    _row("Docker Hub", "dckr_pat_", r"dckr_pat_[\w\-]{8,}"),
    _row(
        "password in a URL",
        "://",
        r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://[^\s/:@\"'<>]{0,200}:([^\s\"'<>]{1,500})@",
    ),
    _row(
        "password in a query",
        "password= wd= token= secret= sig= signature= key=",
        r"(?<=[?&;])(?i:password|passwd|pwd|(?:access_?|auth_?|refresh_?|sas_?)?token|(?:client_?)?"
        r"secret|api_?key|access_?key|account_?key|shared_?access_?key|signature|sig)="
        r"(?![A-Za-z_$][\w.$]*\()"
        r"([^\s&;\"'`<>{}$%]{4,}(?:%[0-9A-Fa-f]{2}[^\s&;\"'`<>{}$%]*)*)",
    ),
    _row(
        "password in a connection string",
        "password= pwd= accountkey= sharedaccesskey=",
        r"(?i:password|pwd|accountkey|sharedaccesskey)\s?=\s?(?![A-Za-z_$][\w.$]*\()"
        r"([^;\s\"'`]+)(?=;|\"|'|`)",
    ),
    _row(
        "authorization header",
        "bearer basic",
        r"(?i:bearer|basic)[ \t]+(?=[A-Za-z._~+/\-]*[0-9=])([A-Za-z0-9._~+/=\-]{8,})",
    ),
    _row(
        "password of a command line",
        "--pass --pwd --token --secret --api",
        r"(?<=[\s\"'])--(?:[a-z]+-)*(?:password|passwd|pwd|passphrase|token|secret|api-?key)"
        r"(?:=|\s+|\"\s*,\s*\"|'\s*,\s*')(?![a-z]+[,.;:)]?(?:\s|$))([^\s\"'$<{=\-\[(][^\s\"']{3,})",
    ),
    _row(
        "password of a command line",
        "curl wget",
        r"-u[ \t=]*[\"']?[\w.@\-]+:([^\s\"'$:]{3,})(?=[\s\"']|$)",
    ),
    _row(
        "password of a command line",
        "sshpass mysql",
        r"(?:sshpass\s+-p\s*|mysql(?:dump|admin|import)?\s(?:[^\n|;&]{0,200}\s)?-p)[\"']?"
        r"([^\s\"'$\-][^\s\"']{2,})",
    ),
    _row(
        "password beside a user's name",
        "auth= auth( networkcredential(",
        r"(?:auth=|(?:[A-Za-z]{0,20}(?:Basic|Digest|Proxy|NTLM)Auth|NetworkCredential)\()\(?\s*[\"'][^\"'\n]{1,100}[\"']\s*,\s*"
        r"[\"']([^\"'\n]{3,})[\"']",
    ),
    # In prose one word after it, with letters and digits, and no more in the sentence's way.
    _row(
        "password in a sentence",
        "password passphrase",
        r"(?:(?i:[a-z]{0,20}_)?(?i:password|passphrase))(?:\s+(?:is|was)|:)\s+[\"'`]?"
        r"(?![a-z]+[0-9]{0,3}-[a-z])(?=[\w!@#%^&*+\-]*[A-Za-z])(?=[\w!@#%^&*+\-]*[0-9])"
        r"([A-Za-z0-9!@#%^&*+\-][\w!@#%^&*+\-]{7,})(?=[\s\"'`.,;]|$)",
    ),
    _row(
        "password of a .netrc",
        "login",
        r"(?:(?:machine\s+[^\s\"']{1,200}|default)\s+(?:login|user)\s+[^\s\"']{1,80}\s+password\s+"
        r"|(?:login|user)\s+(?!(?:and|by|for|has|is|needs|or|the|using|via|with|without|your)\s)"
        r"[^\s\"']{1,80}\s+password\s+(?=[A-Za-z.]{0,80}[^A-Za-z\s\"'.,;:!?)]))([^\s\"']{3,})",
    ),
    _row(
        "registry's login",
        '"auth" _auth',
        # Base64 comes in groups of four letters; while it is being typed, nothing follows.
        r"(?:\"auth\"\s*:\s*\"|(?<!\.)_auth\s?=\s?\"?)(?=[A-Za-z+/]{0,200}[0-9=])"
        r"((?:[A-Za-z0-9+/]{4}){2,200}(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
        r"(?![A-Za-z0-9+/=])|[A-Za-z0-9+/]{12,}+(?=\s*(?:\n|\Z)))",
    ),
    _row(
        "hash of a password",
        "$apr1$ $6$ $2 $argon2",
        r"\$(?:2[aby]\$\d\d|argon2\w{1,2}\$v=\d+\$[\w=,]{1,60}\$[\w+/]{1,90}|(?:apr1|6)"
        r"\$[^\s:$\"']{1,60})\$([A-Za-z0-9./+]{20,})",
    ),
    _row(
        "private part of a JSON web key",
        '"d": "p": "q": "dp": "dq": "qi": "k":',
        r"\"(?:d|p|q|dp|dq|qi|k)\":\s*\"(?=[A-Za-z_\-]{0,200}[0-9])([A-Za-z0-9_\-]{40,})\"",
    ),
    _row(
        "private part of an XML key",
        "<d> <p> <q> <inverseq>",
        r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*([A-Za-z0-9+/=]{24,})\s*</",
    ),
    _row(
        "authorization header",
        "authorization",
        r"(?i:authorization)(?:[\"']\]?\s*[:=,]|\s*:)\s*[\"']?(?i:token|digest|apikey)[ \t]+"
        r"(?=[A-Za-z._~+/\-]{0,200}[0-9=])([A-Za-z0-9._~+/=\-]{8,})",
    ),
    _row(
        "key of a command line",
        "--account-key --access-key",
        r"--(?:account|access)-key(?:=|\s+)[\"']?([A-Za-z0-9+/=]{16,})",
    ),
    _row(
        "password of a command line",
        "redis-cli pass:",
        r"(?:redis-cli\s(?:[^\n|;&]{0,200}\s)?-a\s+|-pass(?:in|out)?\s+pass:)[\"']?"
        r"([^\s\"'$\-][^\s\"']{2,})",
    ),
    _row("password of a host", "ansible_", r"ansible_\w{0,30}pass(?:word)?=[\"']?([^\s\"']{3,})"),
    _row(
        "password as a setting's default",
        "password:",
        # Not what a shell does with a variable: ${password:-…}, ${password:0:8}.
        r"\$\{[\w.\-]{0,80}password:(?![-?+=]|\d+(?::\d+)?\})([^}\s$#]{3,})\}",
    ),
    _row(
        "password of PowerShell",
        "convertto-securestring",
        r"(?i:ConvertTo-SecureString)\s+(?:-String\s+)?[\"']([^\"'\n$]{3,})",
    ),
    _row(
        "password of a named setting",
        'value="',
        r"(?i:(?:key|name)=\"[^\"\n]{0,80}(?:passw(?:or)?d|secret|token|api_?key)\"\s+value=\")"
        r"(?!<\?|[@$])([^\"\n]{3,})\"",
    ),
    _row(
        "password of a named setting",
        '"value"',
        r"\"(?i:name|key)\"\s*:\s*\"(?i:[^\"\n]{0,80}(?:passw(?:or)?d|secret|token|api_?key))\""
        r"\s*,\s*\"(?i:value)\"\s*:\s*\"([^\"\n]{3,})\"",
    ),
    _row("password in SQL", "identified", r"(?i:identified\s+by(?:\s+password)?)\s+'([^']+)"),
    _row(
        "password in XML",
        "password> passwd> secret> token> apikey> passphrase>",
        r"(?i:<[\w:.\-]*(?:password|passwd|secret|token|apikey|passphrase)>)\s*([^<\s$#{][^<]*)<",
    ),
)
