"""Forms of secrets that no rule was written for, which measure what the rules do beyond their list.

They were written before the rules were last changed.  A form that a rule is written for moves to
``secret_forms.py``, and another one takes its place.
"""

from typing import Final

from tests.support.secret_forms import forms

HELD_OUT: Final = [
    *forms(
        "configuration",
        """
pjsip.conf auth_type=userpass⏎password={password}⏎username=6001
haproxy.cfg user admin insecure-password {password}
ppp.conf set authkey {password}
asound.nix users.users.bob.initialPassword = "{password}";
unbound.conf control-key-secret: "{alnum:32}"
dhcpd.conf key ddns {{ algorithm hmac-md5; secret {base64:22}==; }};
freeradius.conf client ap {{⏎  ipaddr = 10.0.0.2⏎  secret = {password}⏎}}
wg0.conf PresharedKey = {base64:43}=
kea.json "password": "{password}", "user": "kea"
pillar.sls mysql.pass: '{password}'
""",
    ),
    *forms(
        "commands",
        """
a.sh smbclient //host/share -U bob%{password}
a.sh mosquitto_pub -h broker -u bob -P {password} -t x -m y
a.sh lftp -u bob,{password} ftp.example.org
a.sh openssl enc -aes-256-cbc -k {password} -in a -out b
a.sh 7z a -p{password} out.7z dir
a.sh gpg --batch --passphrase {password} -d x.gpg
a.sh echo {password} | sudo -S apt update
a.sh snmpget -v3 -u bob -A {password} -l authNoPriv host oid
a.sh az login --service-principal -u app -p {password} --tenant t
a.sh psql "host=h user=u password={password}"
a.sh xfreerdp /v:host /u:bob /p:{password}
a.sh rclone config create r webdav pass={password}
""",
    ),
    *forms(
        "languages",
        """
a.el (setq smtp-password "{password}")
a.clj {{:user "bob" :password "{password}"}}
a.hs dbPassword = T.pack "{password}"
a.ml let password = "{password}" in
a.erl {{password, "{password}"}},
a.exs config :app, Repo, password: "{password}"
a.pas Password := '{password}';
a.vb Dim pwd As String = "{password}"
a.cob MOVE "{password}" TO WS-PASSWORD.
a.f90 character(len=*), parameter :: password = '{password}'
a.jl const DB_PASSWORD = "{password}"
a.nim let apiKey = "{alnum:32}"
a.zig const password: []const u8 = "{password}";
a.tcl set password "{password}"
a.R con <- dbConnect(drv, user = "u", password = "{password}")
a.m NSString *password = @"{password}";
a.sas libname x oracle user=u password="{password}";
a.scm (define password "{password}")
""",
    ),
]
"""40 of them."""
