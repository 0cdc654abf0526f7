import pytest

from speclsp.secrets.paths import is_secret_path

SECRET = """
    .env .ENV .env.local .env.production .env.example .env-ci prod.env config/.env .envrc
    server.pem a/b/c.KEY cert.p12 cert.pfx store.jks app.keystore vault.kdbx x.ppk token.gpg
    id_rsa ID_RSA id_dsa id_ecdsa id_ed25519 id_ed25519_sk id_ed25519_github id_rsa.pub id_rsa.bak
    id_deploy keys/id_work
    credentials credentials.json Credentials.YML credentials.csv credentials.py aws-credentials.ini
    my_credentials.txt gcp-credentials.json
    rclone.conf .databrickscfg kubeconfig-prod.yaml
    .netrc _netrc .npmrc .pypirc .pgpass .htpasswd .git-credentials .dockercfg .s3cfg
    secrets.yml secrets.yaml.enc secrets.py secrets.h secret.json client_secret_42.json
    secrets.production.json app-secrets.toml
    terraform.tfstate terraform.tfstate.backup prod.tfvars prod.auto.tfvars.json.bak~ kubeconfig
    service-account.json service-account-prod.json service_account_key.json
    .aws/config .aws/anything.py .ssh/known_hosts home/.ssh/config .gnupg/pubring.kbx .kube/config
    .bash_history .psql_history passwords.txt db_password.txt deploy_private_key.txt api-keys.txt
    secrets/database.txt deploy/.secrets/token config/credentials/production.yml.enc
    .env.bak .env~ server.pem.old credentials.json.1 .npmrc.backup win\\.ssh\\config
"""


@pytest.mark.parametrize("path", SECRET.split())
def test_secret(path):
    assert is_secret_path(path)


INNOCENT = """
    id_utils.py id_map.ts src/id_generator.go identity.json ids.txt
    env.py environment.yml environments/prod.py venv.py dotenv.js envelope.txt
    keys.py keyboard.json monkey.py hotkey.ts key_value.rs primary.keys.py
    credentials_provider.py CredentialsService.java test_credentials.py use-credentials.tsx
    secrets_test.go secret_santa.py SecretManager.kt secretary.txt secretariat.md
    pkg/secrets/store.go src/credentials/model.py
    password_reset.html passwords_controller.rb src/passwd.c
    service_account.py tokens.json token.py package.json compass.json README.md authors.json
    tfstate.py terraform.tf main.tf compose.yaml Makefile npmrc.md history.py bash_history_parser.py
    docs/private_key_rotation.md
"""


@pytest.mark.parametrize("path", INNOCENT.split())
def test_not_secret(path):
    assert not is_secret_path(path)


def test_of_a_folders_own_path_only_folders_in_which_nothing_is_read_count():
    assert is_secret_path("config", "/home/ada/.kube/config")
    assert is_secret_path("token", r"C:\Users\ada\.aws\sso\token")
    assert not is_secret_path("a.txt", "/home/ada/secrets/a.txt")
