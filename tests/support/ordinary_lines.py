"""Ordinary lines around what the rules look for, written by hand: none of them holds a secret.

Names of secrets beside expressions, calls, types, messages, versions and references, in the
languages and formats that people write; words that begin as keys do; documents about passwords.
"""

# ruff: noqa: E501  # a row is one line of somebody's file

from typing import Final, NamedTuple


class OrdinaryLine(NamedTuple):
    """What stands in a file of this name, and holds no secret."""

    name: str
    text: str


def _lines(rows: str) -> list[OrdinaryLine]:
    """Return the lines of rows: a file's name, a blank and a line each; ``⏎`` ends a line."""
    parts = (row.partition(" ") for row in rows.strip("\n").split("\n"))
    return [OrdinaryLine(name, text.replace("⏎", "\n")) for name, _, text in parts]


ORDINARY_LINES: Final = _lines(
    r'''
a.go req.Header.Set("Authorization", "Bearer "+apiKey)
a.go req.Header.Set("Authorization", "Basic "+auth)
a.go req.Header.Add("Authorization", "Bearer "+cfg.AccessToken)
a.go r.Header.Set("Authorization", fmt.Sprintf("Bearer %s", accessToken))
a.py headers = {"Authorization": "Bearer " + self.access_token}
a.py headers = {"Authorization": f"Bearer {settings.api_key}"}
a.py headers["Authorization"] = "Basic " + b64encode(userpass).decode()
a.py headers["Authorization"] = "Token " + self.token
a.js headers: { Authorization: 'Bearer ' + accessToken2 },
a.js headers: { Authorization: `Bearer ${process.env.API_TOKEN}` },
a.ts config.headers.Authorization = 'Bearer ' + localStorage.getItem('token');
a.java request.addHeader("Authorization", "Bearer " + accessTokenProvider.getToken());
a.rb request['Authorization'] = 'Bearer ' + access_token2
a.php $headers[] = 'Authorization: Bearer ' . $accessToken2;
a.rs .header("Authorization", format!("Bearer {api_key}"))
a.cs request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", accessToken);
a.kt .addHeader("Authorization", "Bearer " + tokenProvider.current())
a.sh curl -H "Authorization: Bearer $API_TOKEN" https://api.example.com/v1/items
a.sh curl -H "Authorization: token ${GITHUB_TOKEN}" https://api.github.com/user
a.md Send the header `Authorization: Bearer <token>`. Defaults to `none`.
a.md Use `Authorization: Basic <credentials>` or the `Authorization: Bearer <access-token>` header.
a.md Bearer authentication is used for all endpoints.
a.md The WWW-Authenticate header is `Bearer realm="example"`, as RFC6750 says.
a.py # basic 16-color SGR codes
a.py # Basic HTTP/1.1 support, basic IPv4-only lookups, basic UTF-8 checks
a.py """A basic 2-dimensional grid."""
a.md Basic ES2015-style modules and basic OAuth2-flows are supported.
a.md a basic x86-64 machine, a basic H.264/AVC decoder
a.c /* basic auth-scheme handling, see RFC-7617 */
a.css .sk-fading-circle1 { animation-delay: -1.1s; }
a.css .sk-fading-circle .sk-circle12:before { opacity: 0; }
a.css .sk-cube-grid .sk-cube9 { animation-delay: 0.2s }
a.html <div class="sk-chasing-dot1 sk-bounce2"></div>
a.js const id = "sk-loading-spinner2";
a.py from mcp import ClientSession, StdioServerParameters
a.py from sqlalchemy import create_session, SessionTransactionOrigin
a.py from auth import CreateSession, RefreshSessionTokens2
a.ts import { getSession, SessionProviderProps } from "next-auth/react";
a.ts import { UserSession, AuthenticatedRequestHandler } from './types';
a.java import com.example.Session, com.example.SessionFactoryImplementation;
a.py def open(session: AsyncDatabaseSession, timeout=30): ...
a.py def use(session, StreamableHTTPTransport): ...
a.go func (s *Server) handle(session *ServerSessionState, in CallToolParams) error {
a.ts constructor(private session: SessionStorageService2, private http: HttpClient) {}
a.ts const session = useSessionStorageState2();
a.rs pub fn new(session: SessionStateMachine2) -> Self {
a.yml oauth_token:⏎  allOf:⏎    - $ref: '#/components/schemas/Token'
a.yml password:⏎  type: string⏎  format: password
a.yml api_key:⏎  $ref: '#/components/schemas/ApiKey2'
a.yml client_secret:⏎  oneOf:⏎    - type: string
a.yml token:⏎  anyOf:⏎  - type: string
a.yml access_token:⏎  description: The access token for the API
a.yml access_token:⏎  additionalProperties: false
a.yml securitySchemes:⏎  bearerAuth:⏎    type: http⏎    scheme: bearer⏎    bearerFormat: JWT
a.json "password": {"type": "string", "format": "password", "minLength": 8},
a.json "client_secret": {"$ref": "#/definitions/secretKeySelector2"},
a.toml rpassword = "7.5.4"
a.toml secrecy-password = { version = "0.8.2", features = ["alloc"] }
a.toml argon2-password = "0.5"
a.json "generate-password": "^1.7.1",
a.json "@types/bcrypt-password": "~5.0.2",
a.json "passport-http-bearer": "^1.0.1",
a.json "jsonwebtoken": "^9.0.2",
a.json "csrf-token": ">=3.0.4 <4",
a.txt django-password==1.0.4
a.txt keyring-password>=23.13.1,<24
a.txt zxcvbn-password~=4.4.28
a.gradle implementation 'com.nulab-inc:zxcvbn-password:1.8.2'
a.rb gem 'devise-password', '~> 4.9.2'
a.nix passwordManager = pkgs.pass;
a.sh API_KEY=$(openssl rand -base64 32)
a.sh API_KEY="$(openssl rand -hex 16)"
a.sh PASSWORD=`cat /run/secrets/db_password`
a.sh export DB_PASSWORD=$(aws ssm get-parameter --name /prod/db --query Parameter.Value)
a.sh PASSWORD=$(tr -dc A-Za-z0-9 </dev/urandom | head -c 16)
a.sh TOKEN=$(jq -r .access_token response.json)
a.sh TOKEN=`curl -s http://localhost/token | jq -r .token`
a.sh DB_PASSWORD="${DB_PASSWORD:-$(pass show db/prod)}"
a.sh read -s -p "Password: " PASSWORD
a.sh if [ -z "$PASSWORD" ]; then echo "PASSWORD is not set, exiting now"; fi
a.sh [[ $password =~ ^[A-Za-z0-9]{8,}$ ]] || die "bad password"
a.sh mysql -u root -p"$MYSQL_ROOT_PASSWORD" -e "SELECT 1"
a.sh docker login -u "$USER" --password-stdin ghcr.io
a.sh --password PASSWORD, -p PASSWORD  the password of the database user
a.sh echo "usage: $0 --token TOKEN --api-key KEY"
a.sh unset PGPASSWORD; export PGPASSFILE=~/.pgpass
a.mk TOKEN ?= $(shell cat token.txt)
Makefile PASSWORD := $(shell openssl rand -base64 12)
Dockerfile ARG GITHUB_TOKEN
Dockerfile RUN --mount=type=secret,id=npm_token NPM_TOKEN=$(cat /run/secrets/npm_token) npm ci
a.yml GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
a.yml password: ${{ secrets.DOCKERHUB_PASSWORD }}
a.yml password: "{{ vault_db_password }}"
a.yml password: !Ref DatabasePassword
a.yml password: !vault |
a.yml MasterUserPassword: !Sub '{{resolve:secretsmanager:${Secret}:SecretString:password}}'
a.yml DB_PASSWORD: {{ .Values.database.password | b64enc | quote }}
a.yml secretKeyRef:⏎  name: db-credentials⏎  key: password
a.yml - name: DB_PASSWORD⏎  valueFrom:⏎    secretKeyRef:
a.yml token: {{ required "A valid token is required" .Values.token }}
a.yml existingSecret: my-release-postgresql
a.yml auth_token_ttl: 3600s
a.tf password = var.db_password
a.tf password = random_password.db.result
a.tf password = data.aws_secretsmanager_secret_version.db.secret_string
a.tf master_password = aws_ssm_parameter.password.value
a.tf api_key = module.auth.api_keys["frontend1"]
a.tf token = data.external.token.result["access_token"]
a.tf variable "db_password" {⏎  description = "The password of the database user"⏎  type = string⏎  sensitive = true⏎}
a.tf manage_master_user_password = true
a.tf token = file("${path.module}/token1.txt")
a.tf secret_key = base64encode(random_id.key2.hex)
a.py errors["password"] = "must be at least 8 characters"
a.py errors = {"password": "Password must have at least 8 characters, one digit"}
a.py raise ValidationError({"password": "This field may not be blank."})
a.py ERRORS = {"bad_password": "The user name or password is incorrect."}
a.js errors.password = "is too short (minimum is 8 characters)";
a.js const messages = { password: "Choose a strong one, 8 letters or more" };
a.json "reset_password": "Reset your password",
a.json "password": "Passwort eingeben, mindestens 8 Zeichen",
a.json "password": "Mot de passe oublié ? Cliquez ici",
a.yml password: must be at least 8 characters long
a.yml invalid_token: The token has expired, please log in again
a.yml password: "can't be blank and needs 8 letters"
a.java @Size(min = 8, message = "password: must have 8 or more characters")
a.kt val password = stringResource(R.string.password_hint2)
a.xml <string name="password">Enter your password here, please</string>
a.xml <string name="error_incorrect_password">This password is incorrect</string>
a.html <input type="password" name="password" placeholder="At least 8 characters">
a.html <input type="password" value="{{ form.password.value }}">
a.html <label for="password">Password (8 to 64 characters)</label>
a.php 'password' => 'required|string|min:8|confirmed',
a.php 'password' => ['required', 'confirmed', Rules\Password::defaults()],
a.php 'password' => Hash::make($request->password),
a.php 'password' => bcrypt('secret'),
a.php 'password' => env('DB_PASSWORD', ''),
a.php 'api_token' => Str::random(60),
a.php $this->validate($request, ['token' => 'required|size:64']);
a.php protected $hidden = ['password', 'remember_token', 'two_factor_secret'];
a.php $table->string('password', 60);
a.rb password: params[:user][:password],
a.rb validates :password, length: { minimum: 8 }, presence: true
a.rb has_secure_password validations: false
a.rb password = SecureRandom.hex(16)
a.rb t.string :encrypted_password, null: false, default: ""
a.rb self.reset_password_token = Devise.token_generator.generate(self.class, :reset_password_token)
a.py password = serializers.CharField(write_only=True, min_length=8, max_length=128)
a.py password = hashlib.sha256(raw.encode("utf-8")).hexdigest()
a.py password = "".join(random.choices(string.ascii_letters + string.digits, k=16))
a.py token = jwt.encode({"sub": user_id}, SECRET_KEY, algorithm="HS256")
a.py api_key: str = Field(..., min_length=32, pattern=r"^[a-z0-9]+$")
a.py SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]
a.py SECRET_KEY = config("SECRET_KEY", default=get_random_secret_key())
a.py access_token = response.json()["access_token"]
a.py secret = boto3.client("secretsmanager").get_secret_value(SecretId="prod/db1")["SecretString"]
a.py if token in ("<|im_start|>", "<|endoftext|>"): continue
a.py self.eos_token = "<|end_of_text|>"
a.py pad_token = "[PAD]"
a.py token = tokens[idx1 + offset2]
a.py token, rest = text[:8], text[8:]
a.py user, password = credentials.split(":", 1)
a.py assert password == form.cleaned_data["password1"]
a.py mock.patch("app.auth.verify_password", return_value=True)
a.py parser.add_argument("--token", default=os.getenv("HF_TOKEN2"), help="token to use")
a.py parser.add_argument("--password", metavar="PASSWORD1", type=str)
a.py logger.info("token=%s user=%s", token, user)
a.py print(f"token={token!r} password={password1}")
a.py CREATE_USER = "CREATE USER %s IDENTIFIED BY %s"
a.py conn = psycopg2.connect(host=host, user=user, password=os.environ["PGPASSWORD"])
a.py url = f"postgresql://{user}:{password}@{host}:{port}/{name}"
a.py url = "postgresql://" + user + ":" + password + "@" + host
a.py DATABASE_URL = "postgresql://localhost:5432/app"
a.py # e.g. postgres://user:password@host:5432/db
a.py redis_url = "redis://localhost:6379/0"
a.py proxies = {"https": "http://user:pass@proxy:8080"}
a.js const url = `mongodb://${user}:${pass}@${host}/db`;
a.js const { password, ...rest } = user;
a.js const token = crypto.randomBytes(32).toString('hex');
a.js const token = req.headers.authorization?.split(' ')[1];
a.js const token = await getAccessToken({ audience: 'https://api.example.com/v2' });
a.js password: { type: String, required: true, minlength: 8, select: false },
a.js password: yup.string().min(8).required('Password is required'),
a.js password: z.string().min(12).max(128),
a.js secretOrKey: process.env.JWT_SECRET2,
a.js if (password !== confirmPassword1) setError('passwords differ');
a.js token: action.payload.token1,
a.js apiKey: import.meta.env.VITE_FIREBASE_API_KEY,
a.js const apiKey = props.apiKey ?? config.keys['service-1'];
a.ts readonly token: InjectionToken<HttpInterceptor2>;
a.ts export const AUTH_TOKEN = new InjectionToken<AuthService2>('auth.token');
a.ts type Props = { password?: string; onSubmit: (p: string) => void };
a.ts export interface Credentials { username: string; password: Base64String2 }
a.ts let secret: Uint8Array = await deriveKey2(passphrase);
a.ts const SECRET_NAME = 'my-service/db-credentials';
a.go password := os.Getenv("DB_PASSWORD")
a.go Password: b64Pwd,
a.go Password: cfg.Auth.Basic2.Password,
a.go token, err := jwt.Parse(raw, keyFunc2)
a.go Token: hex.EncodeToString(sum256[:]),
a.go APIKey string `json:"api_key" yaml:"api_key1"`
a.go Secret  string `mapstructure:"client_secret" validate:"required,min=32"`
a.go return nil, errors.New("password: must not be empty or contain 0x00 bytes")
a.go log.Printf("token: %v, secret: %v", tok1, sec1)
a.go case TOKEN_STRING2: return parseString(tok)
a.go flag.StringVar(&password, "password", "", "password of the database user")
a.rs let password: SecretString = rpassword::prompt_password("Password: ")?.into();
a.rs let token = Token::Ident(name2.to_owned());
a.rs let secret = StaticSecret::random_from_rng(OsRng2);
a.rs password: Option<Zeroizing<[u8; 32]>>,
a.rs token: &mut Peekable<CharIndices2>,
a.rs #[arg(long, env = "API_TOKEN", hide_env_values = true)]
a.rs let key = SigningKey::from_bytes(&secret_bytes32);
a.java private static final String PASSWORD = "password";
a.java String password = System.getenv("DB_PASSWORD");
a.java String token = Jwts.builder().setSubject(user).signWith(SignatureAlgorithm.HS512, secret).compact();
a.java @Value("${app.jwt.secret}") private String jwtSecret;
a.java props.put("password", passwordEncoder.encode(rawPassword1));
a.java config.put(SaslConfigs.SASL_MECHANISM, "SCRAM-SHA-256");
a.java public static final String TOKEN_HEADER = "X-Auth-Token2";
a.java char[] password = passwordField.getPassword();
a.kt val token: String by lazy { prefs.getString("token1", null) ?: error("no token") }
a.kt password = passwordState2.value,
a.kt class LoginUseCase(private val tokenStore: EncryptedTokenStore2)
a.cs var password = Configuration["Database:Password"];
a.cs public string Password { get; init; } = string.Empty;
a.cs var token = new JwtSecurityTokenHandler().WriteToken(jwt2);
a.cs [Required, StringLength(100, MinimumLength = 6)] public string Password { get; set; }
a.cs Password = model.Password1,
a.swift let password = passwordField.text ?? ""
a.swift KeychainWrapper.standard.set(token2, forKey: "authToken")
a.c static const char *password_prompt = "Enter PIN for token %s: ";
a.c if (strcmp(password, expected_pw1) == 0) return AUTH_OK;
a.c uint8_t secret[SHA256_DIGEST_LENGTH];
a.c { "password", required_argument, NULL, 'p' },
a.cpp auto token = tokenizer.encode(prompt2, /*add_bos=*/true);
a.cpp std::string secret = derive_key(passphrase1, salt2);
a.lua local token = vim.env.GITHUB_TOKEN or M.config.token1
a.lua api_key = "OPENAI_API_KEY",
a.lua password = vim.fn.inputsecret("Password: "),
a.vim let g:api_key = $OPENAI_API_KEY
a.sql CREATE USER app WITH PASSWORD :'app_password';
a.sql ALTER TABLE users ADD COLUMN password varchar(255) NOT NULL;
a.sql SELECT id, password_hash, token2 FROM users WHERE token = $1;
a.sql -- the password column holds bcrypt hashes, 60 characters
a.ini password = %(DB_PASSWORD)s
a.conf ssl_password_file /etc/nginx/ssl/passwords;
a.conf password_encryption = scram-sha-256
a.conf proxy_set_header Authorization $http_authorization;
a.properties spring.datasource.password=${DB_PASSWORD}
a.properties security.oauth2.token-uri=https://auth.example.com/oauth2/token
a.properties password.min.length=8
a.env.example API_KEY=
a.env.example JWT_SECRET=<generate with openssl rand -hex 32>
a.md Set `OPENAI_API_KEY` to your key, e.g. `OPENAI_API_KEY=<your-key>`.
a.md The token is validated against the `iss` claim and the RFC8707 resource.
a.md | password | string | yes | At least 8 characters |
a.md The default password is stored in the config file.
a.md - **password**: the user's password, hashed with Argon2id
a.md Passwords: see section 4.2 of RFC8265.
a.md # Authentication: tokens, API keys and OAuth2
a.md the password is OAuth2-protected, the password for SSH is optional
a.md See [the token](https://example.com/docs?token=abc) in the reference.
a.md Pass `?token=<value>` or `?api_key=<key>` in the query.
a.md The password is never sent; the secret is rotated every 30 days.
a.txt Login: user / guest mode
a.txt login with password authentication, or user foo password prompt
a.txt Enter login user password when asked.
a.http Authorization: Bearer {{token}}
a.http POST /login?token={{csrf}} HTTP/1.1
a.js fetch(`/api/reset?token=${encodeURIComponent(token)}`)
a.py f"{base}/callback?access_token={token}&state={state}"
a.py "/messages/?session_id=" + session_id2
a.py Set-Cookie: session=<opaque value>; HttpOnly
a.js cookies.set('session', sessionToken2, { httpOnly: true });
a.py session = Session(engine2)
a.py auth=(username2, password2)
a.py requests.get(url, auth=("user", os.environ["PASS2"]))
a.js otp: generateOtp6Digits(),
a.py totp = pyotp.TOTP(user.totp_secret2)
a.ts mfaToken: MFA_TOKEN_EXPIRED,
a.ts OTP_LENGTH: OTPLENGTHDEFAULT,
a.java int mfa = MFAREQUIRED;
a.xml <password>${db.password}</password>
a.xml <token>#{tokenBean.value2}</token>
a.xml <add key="Password" value="$(DbPassword)" />
a.xml <property name="password" ref="dbPassword2"/>
a.ps1 $cred = Get-Credential -UserName admin2
a.ps1 $secure = ConvertTo-SecureString $env:PASSWORD2 -AsPlainText -Force
a.yml hash: sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
a.py session.login(user, password2)
a.py client.login("bot", token=TOKEN2)
a.py db.connect("localhost", "root", getpass.getpass())
a.js io.connect('http://localhost', 'room1', 'message')
a.html <meta name="csrf-token" content="{{ csrf_token() }}">
a.py def authenticate(username: str, password: str = Form(...), scope: str = "") -> User:
a.py password = data.get("password", "").strip()
a.py password=Depends(get_password_hash2), token=None
a.py if not password or len(password) < 8: raise ValueError("password too short")
a.py api_key = os.getenv("OPENAI_API_KEY") or "not-needed"
a.py client = OpenAI(api_key="EMPTY", base_url="http://localhost:8000/v1")
a.py SECRET = Secret(str(uuid4()))
a.py token = f"{header_b64}.{payload_b64}.{signature_b64}"
a.py token = "%s:%s" % (key_id1, digest2)
a.py assert response.json() == {"detail": "Invalid token or token expired"}
a.py TOKEN_TYPES = {"access": "access_token", "refresh": "refresh_token_v2"}
a.py token_type_ids = encoding["token_type_ids"][0]
a.py secret = b"\x00" * 32
a.py password: SecretStr = SecretStr("")
a.py "password": forms.PasswordInput(attrs={"class": "form-control col-md-6"}),
a.py @pytest.mark.parametrize("token", ["", "abc", "x" * 300])
a.py os.environ.pop("AWS_SECRET_ACCESS_KEY", None)
a.py raise AuthError("token: signature verification failed for kid %s" % kid)
a.py self.password_hash = generate_password_hash(password, method="pbkdf2:sha256:600000")
a.py session.headers.update({"X-Auth-Token": self._token_v2})
a.py credentials = service_account.Credentials.from_service_account_file("sa.json")
a.py credentials = pika.PlainCredentials(user1, password1)
a.py tokens = nltk.word_tokenize("The quick brown fox2")
a.py mail.login(settings.IMAP_USER, settings.IMAP_PASS)
a.js export const selectToken = (state) => state.auth.token2;
a.js jwt.verify(token, process.env.JWT_SECRET, { algorithms: ['HS256'] })
a.js bcrypt.compare(password, user.passwordHash2, done);
a.js const [password, setPassword] = useState('');
a.js passwordField: { placeholder: 'Your password', autoComplete: 'current-password' },
a.js headers: { 'X-CSRF-Token': document.querySelector('meta[name=csrf]').content },
a.js axios.defaults.headers.common['Authorization'] = `Bearer ${token}`;
a.js setHeader('Authorization', 'Basic ' + btoa(user + ':' + pass));
a.js const secret = await vault.read('secret/data/app1');
a.js describe('POST /login?token=invalid', () => {
a.js t('errors.password', { defaultValue: 'The passwords you entered do not match' })
a.js password: "Passwords must be 12+ characters",
a.tsx <Input type="password" label="API key (sk-...)" value={apiKey2} />
a.tsx <PasswordInput password={password1} onChange={setPassword1} />
a.tsx {token ? <Dashboard2 /> : <Login2 />}
a.ts private readonly secretKey: Buffer = randomBytes(32);
a.ts token: string | undefined = this.route.snapshot.queryParams['token'];
a.ts accessToken: oauth2Client.credentials.access_token,
a.ts type: 'password' | 'client_credentials' | 'urn:ietf:params:oauth:grant-type:device_code';
a.ts it('rejects a bad password (401)', async () => {
a.ts expect(redact('password=x')).toBe('password=***');
a.ts clientSecret: new FormControl<string | null>(null, [Validators.minLength(16)]),
a.go cfg.Password = strings.TrimSpace(string(b64))
a.go Token:     tokenSource2,
a.go var ErrBadPassword = errors.New("crypto/x509: decryption password incorrect")
a.go func WithToken(token string) Option { return func(c *Config) { c.token = token } }
a.go if token := r.URL.Query().Get("token"); token == "" {
a.go sess, err := session.NewSessionWithOptions2(opts)
a.go secret, err := clientset.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
a.go {"wrong password", "hunter", false},
a.go password, _ := u.User.Password()
a.go db, err := sql.Open("mysql", cfg.FormatDSN())
a.go dsn := fmt.Sprintf("%s:%s@tcp(%s:%d)/%s", user, pass, host, port, name)
a.go dsn := fmt.Sprintf("host=%s user=%s password=%s dbname=%s sslmode=disable", h, u, p, d)
a.rs token: String::from_utf8(bytes2)?,
a.rs pub struct Credentials { pub password: Secret<String>, pub token: Cow<'a, str> }
a.rs let token = match lexer.next() { Some(Token::Num(n1)) => n1, _ => return };
a.rs secret: [u8; SECRET_LEN32],
a.rs assert_eq!(password.expose_secret(), expected2);
a.rs #[serde(rename = "client_secret", default, skip_serializing_if = "Option::is_none")]
a.java spring.security.user.password = ${random.uuid}
a.java private final Map<String, TokenBucket2> tokens = new ConcurrentHashMap<>();
a.java if (token.equals(expectedToken2)) return ResponseEntity.ok().build();
a.java throw new BadCredentialsException("Invalid password for user '" + name + "'");
a.java String auth = "Basic " + Base64.getEncoder().encodeToString(bytes2);
a.java KeyStore.PasswordProtection(password2.toCharArray())
a.java @ApiModelProperty(value = "The password", example = "At least one digit and one letter")
a.kt val secretKey = SecretKeySpec(key2, "HmacSHA256")
a.kt password = password.copyOf(), token = null
a.cs services.AddAuthentication("Bearer").AddJwtBearer("Bearer2", o => { });
a.cs if (await _userManager.CheckPasswordAsync(user, password1)) { }
a.cs [DataType(DataType.Password), Display(Name = "Password (again)")]
a.cs var apiKey = builder.Configuration["Api:Key1"];
a.rb expect(page).to have_field('Password', type: 'password')
a.rb password: Faker::Internet.password(min_length: 12),
a.rb Rails.application.credentials.dig(:aws, :secret_access_key)
a.rb token = request.headers['Authorization'].to_s.split(' ').last
a.rb raise "password is blank" if password.to_s.empty?
a.php $password = $_POST['password'] ?? '';
a.php $token = bin2hex(random_bytes(32));
a.php 'password_timeout' => 10800,
a.php 'throttle' => 'Please wait before retrying. Your password was not reset.',
a.php define('SECURE_AUTH_KEY', 'put your unique phrase here');
a.swift let token = defaults.string(forKey: "token2")
a.swift request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
a.c char password[MAX_PASSWORD_LEN1 + 1] = {0};
a.c token = strtok_r(NULL, " \t", &save1);
a.c #define TOKEN_COMMA 0x2c
a.c fprintf(stderr, "bad token: expected %s, got %s\n", want2, got2);
a.cpp const std::string token = next_token(stream2).value();
a.cpp case Token::RightParen2: depth--; break;
a.lua if token == "end" then return "keyword1" end
a.lua headers = { ["Authorization"] = "Bearer " .. api_key2 },
a.lua local password = assert(os.getenv("PASS1"))
a.vim nnoremap <leader>t :echo g:token1<CR>
a.sql UPDATE users SET password = crypt($1, gen_salt('bf')) WHERE id = $2;
a.sql GRANT ALL ON db.* TO 'app'@'%' IDENTIFIED BY :password;
a.sh export TOKEN="$(cat ~/.token2)"
a.sh TOKEN=${1:?usage: deploy.sh TOKEN}
a.sh kubectl create secret generic db --from-file=password=./password.txt
a.sh kubectl create secret generic x --from-literal=password="$DB_PASSWORD"
a.sh helm install x y --set auth.password=$(openssl rand -hex 8)
a.sh gh auth login --with-token < token1.txt
a.sh echo "::add-mask::$TOKEN2"
a.sh curl -u "$USER:$PASS" https://example.com
a.sh curl -sSf -H "X-Api-Key: ${API_KEY}" "$URL/v1?token=$TOKEN"
a.sh PGPASSWORD="$PW2" psql -h localhost
a.sh openssl pkcs12 -export -passout pass:"$P12_PASSWORD" -out a.p12
Makefile test: export DB_PASSWORD = $(call gen,16)
Dockerfile ENV TOKEN_FILE=/run/secrets/token1
Dockerfile ENV PASSWORD_MIN_LENGTH 12
a.yml password_policy: "min12-upper1-digit1"
a.yml image: registry.example.com/token-service:1.4.2
a.yml - name: token-refresher2
a.yml secretName: web-tls-cert2
a.yml tokenEndpoint: https://auth.example.com/oauth2/v1/token
a.yml password: *default_password
a.yml DB_PASSWORD: ""
a.yml passwordSecretRef: { name: db-creds-1, key: password }
a.yml security: [{ api_key: [] }, { bearerAuth: [read2] }]
a.yml in: header # api_key: sent as X-API-Key2
a.yml run: echo "TOKEN=$(gh auth token)" >> "$GITHUB_ENV"
a.yml with: { token: "${{ steps.app1.outputs.token }}" }
a.json "token": { "$ref": "#/components/schemas/Token2" },
a.json "password": ["This password is too short. It must contain at least 8 characters."],
a.json "passwordStrength": "zxcvbn-3-of-4",
a.json "api_key": { "type": "apiKey", "name": "X-API-Key", "in": "header" }
a.json "scripts": { "token": "node scripts/token1.js --out .token" },
a.toml token = { workspace = true }
a.toml api-key = { env = "API_KEY1" }
a.toml secrecy = "0.10.3"
a.tf secret_id = aws_secretsmanager_secret.db2.id
a.tf password = sensitive(random_password.master1[0].result)
a.tf token = try(data.vault_generic_secret.gh1.data["token"], null)
a.tf api_token = local.tokens2["prod"]
a.ini password_hashers = argon2, pbkdf2_sha256
a.properties quarkus.datasource.password=${DB_PASSWORD:changeme}
a.properties error.password=The password must contain letters and digits
a.conf auth_basic "Restricted area 1";
a.conf AuthUserFile /etc/apache2/.htpasswd1
a.xml <bean id="passwordEncoder" class="org.example.BCryptPasswordEncoder2"/>
a.xml <password-policy minLength="8" pattern="[A-Z0-9]+"/>
a.html <input id="token" name="token" type="hidden" value="<%= token2 %>">
a.html <a href="/reset?token={{ token }}">Reset your password</a>
a.css .password-strength-2 { content: "password: weak1"; }
a.css input[type="password"]:focus { outline: 2px }
a.md Passwords are checked against [zxcvbn](https://github.com/dropbox/zxcvbn) 4.4.2.
a.md `token`: the OAuth2 token (see RFC6749), `secret`: the HMAC-SHA256 key
a.md Run `app --token <TOKEN>` or set `APP_TOKEN`.
a.md The API key is optional; the password is required in production2.
a.md Rotate the token after 30 days; the password: 90 days.
a.md Basic understanding of OAuth2.0 and bearer tokens is assumed.
a.md Basic IPv6-support was added in 2.3.1
a.md bearer_token_file: where the bearer token (RFC6750) lives
a.rst :param password: The password for the PKCS12 file
a.rst :param api_key: your key, see https://example.com/docs/api-keys2
a.txt Enter password for user2@example.com:
a.txt sudo: a password is required; token "x1" is unknown
a.txt Basic-Auth: user/pass2 is not supported
a.proto string password = 2 [(validate.rules).string.min_len = 8];
a.proto bytes client_secret = 14;
a.graphql login(email: String!, password: String!): AuthPayload2!
a.cs ConnectionString = "localhost:6379,ssl=false"
a.cs Fido2Credentials = fido2Credentials,
a.cs "WiFi Passwords" => $"{faker.PickRandom("Office", "Guest")} WiFi - Floor {n}",
a.kt append("-----BEGIN PRIVATE KEY-----\n")⏎append(encodeLines(pair.private.encoded))⏎append("-----END PRIVATE KEY-----\n")
a.kt * Returns the protocol identified by `protocol`.
a.md The row is identified by "user_id2" and the secret by its name.
a.md * `--password-file=<path>` and `--token-env=NAME`: where they are read from
a.md Use `--api-key KEY` or `--api-key=$KEY`; `--secret NAME=VALUE` adds one.
a.md - `curl -u user:$TOKEN` or `curl -u <user>:<token> https://…`
a.md docker login -u user --password-stdin, mysql -p, redis-cli -a $PASS
a.md sshpass -p "$PASS" ssh host, sshpass -e ssh host2
a.md machine learning, default login shell, login name and password fields
a.md user: alice / role: admin2
a.md credentials: see vault / docs2
a.md Login: admin / operator / viewer1
a.md // with the password encoded2, and password hashing-v2
a.md the password for the account was changed, my password is set2
a.md Password: `string` (8–64 characters)
a.md password = string; token = string
a.md The pwd is printed by `pwd`; pw: see passwd(5).
a.sh pwd=$(pwd); cd "$pwd/build2"
a.sh if test "$passwd" = "yes"; then usermod -p '!' user2; fi
a.sh passwd --stdin user2
a.sh awk -F: '{ print $1 ":" $2 }' /etc/passwd2
a.sh set -x TOKEN (cat token2)
a.sh env TOKEN=$T2 ./run
a.sh curl --proxy-user "$U:$P" --user-agent "Mozilla/5.0 (X11)"
a.sh http -a "$USER2:$PASS2" GET example.org
a.sh wget --user-agent=Mozilla/5.0 https://example.org/a:b
a.sh curl -A "agent/1.0: test" https://example.org
a.sh curl -ku: https://localhost:8443
a.ps1 $password = Read-Host -AsSecureString "Password2"
a.ps1 ConvertTo-SecureString -String $plain2 -AsPlainText -Force
a.py auth=HTTPBasicAuth(user2, password2)
a.py auth=("", api_key2)
a.py sock.connect((host2, 8080)); db.login(); x.bind("<Key>", handler2)
a.py widget.bind("<Button-1>", "callback2")
a.py client.connect("broker", 1883, 60)
a.py sio.connect("http://localhost:5000", namespaces=["/chat2"])
a.js app.bind('change', 'selector2'); socket.bind(3000, '0.0.0.0')
a.js $(el).bind('click', 'handler2')
a.js mysql.createConnection({ host: 'localhost', user: 'me', password: process.env.PW2 })
a.go sql.Open("mysql", dsn2)
a.go sql.Open("mysql", user+":"+pass+"@tcp("+host+")/"+db)
a.go s := "%s:%s@unix(%s)/%s"
a.tf variable "token" { type = string }⏎variable "region" { default = "eu-west-1" }
a.tf variable "api_key" {⏎  type    = string⏎  default = null⏎}
a.tf variable "secret_name" {⏎  default = "app/prod/db2"⏎}
a.json "auth": "basic2",
a.json { "kty": "RSA", "e": "AQAB", "use": "sig", "kid": "key-2" }
a.json "d": "M12 2C6.48 2 2 6.48 2 12s4.48 10 10 10",
a.json "k": "value2", "p": "p-4", "q": "search2"
a.html <path d="M10.5 20a1.5 1.5"/> <p>text2</p> <q>quoted2</q>
a.xml <d>12345678901234567890123456</d>
a.js 'Fernet(key2)'
a.py f = Fernet(key2); g = Fernet(os.environ["K2"])
a.ini ansible_password="{{ vault_pw2 }}" ansible_become_pass={{ pw2 }}
a.yml ansible_password: "{{ lookup('env', 'PW2') }}"
a.java @Value("${db.password:}") String p2; @Value("${app.token:#{null}}")
a.sh ${TOKEN:0:8} ${PASSWORD:-} ${API_KEY:+set2} ${SECRET:?missing2}
a.xml <add key="ApiKeyHeader" value="X-Api-Key2"/> <add key="UseToken" value="true"/>
a.html <input type="password" value=""> <input name="password" value="{{ old2 }}">
a.html <input type="password" autocomplete="new-password2" id="pw2">
a.json {"name": "token", "value": "${TOKEN2}"}, {"key": "password", "value": ""}
a.py otp = generate_otp(length=6); totp_uri2 = totp.provisioning_uri()
a.py MFA_METHODS = ("TOTP", "WEBAUTHN2", "SMS")
a.py OTP_ALGORITHM = "SHA256"
a.java String otp = OTPAUTHENTICATION;
a.js cookie: { name: 'session', maxAge: 24 * 3600e3 }, session: sessionConfig2
a.js document.cookie = `session=${id2}; path=/`
a.http Cookie: session={{session_id2}}
a.yml session: dev-session-store2
a.yml session_cookie: my_application_session2
a.py SESSION_COOKIE_NAME = "sessionid_v2"
a.py SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"
a.py session_id=str(uuid.uuid4())
a.py session: "AsyncSessionMaker2 | None" = None
a.txt localhost:5432:*:db; 10.0.0.1:8080:80:tcp
a.yml ports: ["127.0.0.1:5432:5432", "0.0.0.0:8080:80"]
Dockerfile ENV PATH /usr/local/bin:$PATH
Dockerfile ARG TOKEN_VERSION 2
a.conf requirepass ${REDIS_PASSWORD}
a.conf # requirepass <password>
a.txt urls: http://localhost:3000, http://example.com:8080; (http://127.0.0.1:5000).
a.md See http://localhost:8080/path:8 and redis://cache:6379/0.
a.py f"http://{host}:{port}", "https://%s:%d/" % (h, p)
a.py "git+ssh://git@github.com:org/repo.git", "ssh://git@host:2222/x"
a.yml image: docker://alpine:3.20
a.py url = "jdbc:postgresql://host:5432/db?user=u&ssl=true"
a.js "ws://localhost:${port}/socket"
a.py key = "sort-key2"; primary_key = "id2"; api_key_name = "X-Key2"
a.py ACCESS_KEY_FIELD = "access_key_v2"
a.py secret_key = settings.SECRET_KEY_V2
a.py SIGNING_KEY_ID = "2024-01-key"
a.go const tokenKey = "ctx-token-1"
a.go SecretKey: aws.String(key2),
a.rs let api_key = ApiKey::new(id2, &secret2);
a.rs const SEED: u64 = 0x5DEECE66D;
a.c static const uint32_t auth_key = 0xDEADBEEF;
a.py app_key = "AppDelegate2"; session_key = "cart_v2"
a.py license = "Apache-2.0"; license_key = "apache-2.0"
a.json "license_key": "BSD-3-Clause",
a.py password_hash = "sha256"; hash_password = "bcrypt2"
a.py auth_hash = hashlib.md5(x2).hexdigest()
a.py salt = os.urandom(16); password_salt = b"salt2"
a.ts tokens: { primary: '#1d4ed8', spacing2: '4px' }
a.scss $token-spacing-2: 8px; $color-token: #ff00aa;
a.css --token-primary-500: #3b82f6; --secret-width: calc(100% - 2px);
a.json "tokens": ["input_ids2", "attention_mask2"], "max_tokens": 2048
a.py sep_token="[SEP]", mask_token="<mask>", bos_token="<|begin_of_text|>"
a.py token = "<tool_call2>"; end_token = "</s2>"
a.py special_tokens = {"eos_token": "<|eot_id|>", "pad_token": "<|finetune_right_pad_id2|>"}
a.lua token = { type = "string2", value = "x1" }
a.js token: /[A-Za-z_$][\w$]*/, secret: /x{2,3}/
a.rs token!("fn2") | Token![+=]
a.md Open [http://127.0.0.1:8000](http://127.0.0.1:8000) in your browser (or http://localhost:3000).
a.yml see https://docs.example.com/presentation/d/19vW9HFZ6Puxt31biNZF3uLRejDmu82rxJIk1cWmxF7w/edit
a.yml clientSecret: "urn:k8s:secret:oidc-client:secret1"
a.yml password: arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db1
a.yml - secret: root-ca5
a.html <input type="text" id="token" value="some-key-token"/>
a.py password=('app_ssh_pass', 'app_password'),
a.js console.log(ok ? 'PASS' : 'FAIL2');
a.json { "name": "csrf_token", "value": "placeholder-token-2" }
'''
)
