package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestNamesOfSecretsAreToldFromNamesAboutThem(t *testing.T) {
	for name, want := range map[string]bool{
		"ssl.key.password": true, "ssl.keystore.password": true, "listener.name.x.ssl.truststore.password": true, "ssl.keystore.key": true,
		"sasl.jaas.config": true, "listener.name.client.plain.sasl.jaas.config": true, "basic.auth.user.info": true,
		"sasl.oauthbearer.client.credentials.client.secret": true, "sasl.oauthbearer.assertion.private.key.passphrase": true,
		"password": true, "PASSWORD": true, "dbPassword": true, "clientSecret": true, "client_secret": true, "API_KEY": true, "apiKey": true,
		"access_token": true, "Authorization": true, "delegation.token.secret.key": true, "delegation.token.master.key": true,
		"password.encoder.secret": true, "password_2": true, "aws_secret_access_key": true, "Set-Cookie": true,

		"": false, "key": false, "ordering_key": false, "key.serializer": false, "delegation.token.expiry.time.ms": false,
		"password.encoder.iterations": false, "password.encoder.key.length": false, "sasl.oauthbearer.token.endpoint.url": false,
		"sasl.login.callback.handler.class": false, "ssl.keystore.location": false, "ssl.keystore.type": false, "username": false,
		"sasl.oauthbearer.expected.audience": false, "acks": false, "compass": false, "passes": false, "user": false,
		"secret.file": false, "transactional.id": false,
	} {
		if got := Name(name); got != want {
			t.Errorf("Name(%q) = %v, want %v", name, got, want)
		}
	}
}

// fataler is a test, or a check of rapid's.
type fataler interface{ Fatal(args ...any) }

// redact learns all files and then takes the secrets out of them.
func redact(t fataler, files map[string]string) (map[string]string, map[string][]Finding) {
	r := New()
	redacted, findings := make(map[string]string), make(map[string][]Finding)
	for name, content := range files {
		if err := r.Learn(name, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		var out strings.Builder
		var err error
		if findings[name], err = r.Redact(name, strings.NewReader(content), &out); err != nil {
			t.Fatal(err)
		}
		redacted[name] = out.String()
	}
	return redacted, findings
}

func TestWhatIsTakenOutOfOneFile(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl"
	for _, c := range []struct{ rule, file, content, want string }{
		{"a password in a list of properties", "server.properties", "a=1\nssl.key.password=hunter22\n", "a=1\nssl.key.password=(redacted)\n"},
		{"a value that goes on in the next line", "server.properties", "ssl.key.password = hun\\\n   ter22\nb=2\n", "ssl.key.password = (redacted)\nb=2\n"},
		{"a value after white space alone", "server.properties", "ssl.key.password hunter22", "ssl.key.password (redacted)"},
		{"a short value, where it stands", "server.properties", "ssl.key.password=true\nx=true\n", "ssl.key.password=(redacted)\nx=true\n"},
		{"a login module's configuration", "server.properties", `sasl.jaas.config=x required username="bob" password="hunter22";`, "sasl.jaas.config=(redacted)"},
		{"a property of YAML", "scenario.yaml", "producer:\n    ssl.key.password: hunter22\n    acks: all\n", "producer:\n    ssl.key.password: (redacted)\n    acks: all\n"},
		{"a text of many lines in YAML", "scenario.yaml", "sasl.jaas.config: |-\n    a\n    b\nacks: all\n", "sasl.jaas.config: (redacted)\nacks: all\n"},
		{"an argument after its flag in YAML", "scenario.yaml", "exec:\n    - ./a\n    - --password\n    - hunter22\n    - x\n", "exec:\n    - ./a\n    - --password\n    - (redacted)\n    - x\n"},
		{"a member of JSON", "x.json", `{"ssl.key.password": "hunter22", "n": 1.50}`, `{"ssl.key.password": "(redacted)", "n": 1.50}`},
		{"a number of JSON", "x.json", `{"password": 123456}`, `{"password": "(redacted)"}`},
		{"all that is in an object under a secret's name", "x.json", `{"secrets": {"a": ["x1", 2]}, "b": "c"}`, `{"secrets": {"a": ["(redacted)", "(redacted)"]}, "b": "c"}`},
		{"a value whose name is another member", "x.json", `[{"name":"ssl.key.password","value":"hunter22"},{"name":"acks","value":"all"}]`, `[{"name":"ssl.key.password","value":"(redacted)"},{"name":"acks","value":"all"}]`},
		{"a member over two lines", "x.json", "{\"password\":\n \"hunter22\"}", "{\"password\":\n \"(redacted)\"}"},
		{"JSON in a string of JSON", "x.json", `{"m":"sent {\"password\":\"hunter22\"}"}`, `{"m":"sent {\"password\":\"(redacted)\"}"}`},
		{"a header of HTTP in a log", "x.log", "10:00 GET / Authorization: Bearer xyz, next", "10:00 GET / Authorization: Bearer (redacted), next"},
		{"a bearer token without its header", "x.log", "sent Bearer abc123def456 to x", "sent Bearer (redacted) to x"},
		{"a password in a log", "x.log", "login with password=hunter22, retries=3", "login with password=(redacted), retries=3"},
		{"a password after a colon", "x.log", "login password: hunter22 failed", "login password: (redacted) failed"},
		{"a password in JSON in a log", "x.log", `got {"password":"hun\"ter 22","n":1}`, `got {"password":"(redacted)","n":1}`},
		{"a password in JSON that a log escapes", "x.log", `got "{\"password\":\"hunter22\",\"n\":1}"`, `got "{\"password\":\"(redacted)\",\"n\":1}"`},
		{"a list of properties in a log", "x.log", "INFO values:\n\tssl.key.password = hunter 22\n\tacks = all\n", "INFO values:\n\tssl.key.password = (redacted)\n\tacks = all\n"},
		{"a password in a URL", "x.log", "to https://bob:hunter22@host:8081/x", "to https://bob:(redacted)@host:8081/x"},
		{"a password in a query string", "x.log", "GET /x?access_token=hunter22&n=1", "GET /x?access_token=(redacted)&n=1"},
		{"a flag of a command line", "x.log", "ran ./x --password hunter22 -n 1", "ran ./x --password (redacted) -n 1"},
		{"an element of XML", "x.log", "<a><password>hunter22</password></a>", "<a><password>(redacted)</password></a>"},
		{"a JSON web token", "x.log", "token " + jwt + " refused", "token (redacted) refused"},
		{"an AWS key", "x.log", "as AKIAIOSFODNN7EXAMPLE now", "as (redacted) now"},
		{"a private key over many lines", "x.log", "a\n-----BEGIN PRIVATE KEY-----\nMIIEvQ\n\nabc=\n-----END PRIVATE KEY-----\nb\n", "a\n(redacted)\n(redacted)\n(redacted)\n(redacted)\n(redacted)\nb\n"},
		{"a private key that is cut", "x.log", "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ\n10:00 INFO it goes on: yes\n", "(redacted)\n(redacted)\n10:00 INFO it goes on: yes\n"},
		{"a private key in a string of JSON", "x.json", `{"m":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nok"}`, `{"m":"(redacted)\nok"}`},
		{"a password in a page", "report.html", `<td>ssl.key.password</td><script>x={"password":"hunter22"}</script>`, `<td>ssl.key.password</td><script>x={"password":"(redacted)"}</script>`},
	} {
		t.Run(c.rule+" is taken out", func(t *testing.T) {
			redacted, findings := redact(t, map[string]string{c.file: c.content})
			if redacted[c.file] != c.want {
				t.Errorf("got  %q\nwant %q", redacted[c.file], c.want)
			}
			if len(findings[c.file]) == 0 {
				t.Error("nothing is said of it")
			}
		})
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, c := range []struct{ rule, file, content string }{
		{"what Kafka hid already", "x.log", "\tssl.key.password = [hidden]\n\tsasl.jaas.config = null\n"},
		{"a secret that is absent", "server.properties", "ssl.key.password=\n#ssl.key.password=\n"},
		{"settings about secrets", "x.log", "\tdelegation.token.max.lifetime.ms = 604800000\n\tpassword.encoder.iterations = 4096\n"},
		{"a sentence about a password", "x.log", "Bearer authentication failed since the password expired"},
		{"an address", "x.log", "to http://host:8081/a and PLAINTEXT://:9092,x@y"},
		{"a history's lines", "h.jsonl", `{"line":"send","process":"p1","op":1,"event":"p1/k5/53","ordering_key":"k5"}` + "\r\n\n" + `{"line":"note","text":"a\u00e9\/b"}`},
		{"JSON's own look", "x.json", "{ \"a\" : [1.50, -0, true ,null],\t\"b\\u0041\":\"\\/\" }\n\n"},
		{"a comment and the order of YAML", "scenario.yaml", "b: 1 # one\na:   [x, y]\n"},
		{"a script of a page", "report.html", "<script>let token = next(); this.apiKey = f(x)</script>"},
		{"bytes that are no text", "x.log", "\xff\xfe\r\n\x00"},
		{"what is no YAML", "x.yaml", "a: [\n"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			redacted, findings := redact(t, map[string]string{c.file: c.content})
			if redacted[c.file] != c.content || len(findings[c.file]) > 0 {
				t.Errorf("got  %q\nwant %q\n%v", redacted[c.file], c.content, findings[c.file])
			}
		})
	}
}

func TestAKnownValueIsTakenOutWhereverItStands(t *testing.T) {
	const value = `hu"nt/er <22>é`
	quoted, _ := json.Marshal(value)
	for rule, form := range map[string]string{
		"as it is": value, "as JSON": string(quoted), "in a URL": url.QueryEscape(value), "in a URL's path": url.PathEscape(value),
		"in a URL, in small letters":     strings.ToLower(url.QueryEscape(value)),
		"as base64":                      base64.StdEncoding.EncodeToString([]byte(value)),
		"as base64 after a user's name":  base64.StdEncoding.EncodeToString([]byte("bob:" + value)),
		"as base64 after a longer name":  base64.URLEncoding.EncodeToString([]byte("alice:" + value)),
		"as hexadecimal digits":          hex.EncodeToString([]byte(value)),
		"in the middle of a longer word": "xx" + value + "yy",
	} {
		t.Run(rule, func(t *testing.T) {
			for _, file := range []string{"x.log", "a.properties", "report.html"} {
				redacted, findings := redact(t, map[string]string{
					"scenario.yaml": "producer:\n    ssl.key.password: '" + value + "'\n", file: "say " + form + " ."})
				if !strings.Contains(redacted[file], Marker) || holds(redacted[file], value) {
					t.Errorf("%s: %q", file, redacted[file])
				}
				if len(findings[file]) == 0 || findings[file][0] != (Finding{1, "value of ssl.key.password"}) {
					t.Errorf("%s: it says %v", file, findings[file])
				}
			}
		})
	}
	t.Run("the password of a login module", func(t *testing.T) {
		redacted, _ := redact(t, map[string]string{"a.properties": `sasl.jaas.config=x required username="bobby-tables" password="hunter22" user_eve="mellon-77";`,
			"x.log": "bobby-tables said hunter22 and mellon-77"})
		if redacted["x.log"] != "bobby-tables said (redacted) and (redacted)" {
			t.Error(redacted["x.log"])
		}
	})
	t.Run("the password of a user's info", func(t *testing.T) {
		redacted, _ := redact(t, map[string]string{"a.properties": "basic.auth.user.info=bob:hunter22", "x.log": "said hunter22"})
		if redacted["x.log"] != "said (redacted)" {
			t.Error(redacted["x.log"])
		}
	})
	t.Run("and a longer one that begins with it", func(t *testing.T) {
		redacted, _ := redact(t, map[string]string{"a.properties": "ssl.key.password=hunter22", "x.log": "say password=hunter22-and-more, x"})
		if redacted["x.log"] != "say password=(redacted), x" {
			t.Error(redacted["x.log"])
		}
	})
	t.Run("not a short or common one", func(t *testing.T) {
		for _, common := range []string{"true", "admin", "12345", "123456", "secret", "producer", "ackproof", "Changeit", "${env:X}"} {
			redacted, _ := redact(t, map[string]string{"a.properties": "ssl.key.password=" + common, "x.log": "say " + common})
			if redacted["x.log"] != "say "+common || strings.Contains(redacted["a.properties"], common) {
				t.Errorf("%q: %v", common, redacted)
			}
		}
	})
	t.Run("never in what is said about it", func(t *testing.T) {
		_, findings := redact(t, map[string]string{"a.properties": "ssl.key.password=hunter22", "x.json": `{"hunter22.password":"abc"}`})
		if said := fmt.Sprint(findings); strings.Contains(said, "hunter22") {
			t.Error(said)
		}
	})
}

// holds looks for a value in a text, also where it is base64 or escaped for a URL.
func holds(text, value string) bool {
	if strings.Contains(text, value) || strings.Contains(text, url.QueryEscape(value)) {
		return true
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'=:,;&?()", r) }) {
			if decoded, err := encoding.DecodeString(word); err == nil && strings.Contains(string(decoded), value) {
				return true
			}
		}
	}
	return false
}

// TestNoPlantedSecretSurvives: whatever the secret, whichever places it stands at.
func TestNoPlantedSecretSurvives(t *testing.T) {
	letters := rapid.SampledFrom([]rune(`abcXYZ019!#$%&()*+,-./:;<=>?@[\]^_{|}~'"é世 `))
	rapid.Check(t, func(t *rapid.T) {
		value := strings.TrimSpace(rapid.StringOfN(letters, 8, 24, -1).Draw(t, "value")) + "q7"
		where := rapid.SampledFrom([]string{"ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.credentials.client.secret"})
		files := map[string]string{"x.log": "start\n", "h.jsonl": "", "report.html": "<p>"}
		name := where.Draw(t, "name")
		switch rapid.IntRange(0, 2).Draw(t, "home") {
		case 0:
			document, err := yaml.Marshal(map[string]any{"producer": map[string]string{name: value, "acks": "all"}})
			if err != nil {
				t.Fatal(err)
			}
			files["scenario.yaml"] = string(document)
		case 1:
			files["server.properties"] = "acks=all\n" + name + "=" + strings.ReplaceAll(value, `\`, `\\`) + "\n"
		case 2:
			document, err := json.Marshal(map[string]string{name: value})
			if err != nil {
				t.Fatal(err)
			}
			files["in-force.json"] = string(document)
		}
		quoted, _ := json.Marshal(value)
		for range rapid.IntRange(1, 5).Draw(t, "copies") {
			form := rapid.SampledFrom([]string{value, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value)),
				base64.URLEncoding.EncodeToString([]byte("u:" + value))}).Draw(t, "form")
			switch rapid.IntRange(0, 2).Draw(t, "place") {
			case 0:
				files["x.log"] += rapid.SampledFrom([]string{"say ", "password=", "x: ", "\tssl.key.password = "}).Draw(t, "before") + form + "\n"
			case 1:
				text, _ := json.Marshal("said " + form)
				files["h.jsonl"] += `{"line":"note","time":1,"text":` + string(text) + "}\n"
			case 2:
				files["report.html"] += form + " " + string(quoted) + "</p>"
			}
		}
		redacted, _ := redact(t, files)
		for name, text := range redacted {
			if holds(text, value) || strings.Contains(text, string(quoted[1:len(quoted)-1])) {
				t.Fatalf("%s holds %q:\n%s", name, value, text)
			}
		}
		for line := range strings.Lines(redacted["h.jsonl"]) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("no JSON any more: %s", line)
			}
		}
	})
}

// planted are secrets that FuzzRedact plants around what it is given: where they stand is a secret's
// place whatever stands around.
var planted = []string{"hunter22-Zz", "Tr0ub4dor&3", "correct/horse+battery"}

func FuzzRedact(f *testing.F) {
	for _, name := range []string{"x.log", "x.json", "h.jsonl", "scenario.yaml", "server.properties", "report.html"} {
		f.Add(name, []byte("a=b\n"), []byte("\n{\"c\":\"d\"}"))
	}
	f.Add("x.log", []byte("-----BEGIN PRIVATE KEY-----\nabc"), []byte("\\"))
	f.Fuzz(func(t *testing.T, name string, before, after []byte) {
		for _, value := range planted {
			content := string(before) + value + " " + base64.StdEncoding.EncodeToString([]byte(value)) + " " + url.QueryEscape(value) + string(after)
			redacted, _ := redact(t, map[string]string{"home.properties": "ssl.key.password=" + value, "file/" + name: content})
			for file, text := range redacted {
				if strings.Contains(text, value) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(value))) ||
					strings.Contains(text, url.QueryEscape(value)) {
					t.Fatalf("%s still holds %q: %q", file, value, text)
				}
			}
			again, _ := redact(t, redacted)
			for file := range again {
				if strings.Contains(again[file], value) {
					t.Fatalf("%s holds %q again", file, value)
				}
			}
		}
	})
}
