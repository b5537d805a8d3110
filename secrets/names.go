// Package secrets says what a secret is, and takes secrets out of text: by the name of the
// property that holds one, by the look of it (a bearer token, a private key), and, once a value
// is known, wherever else it stands, also encoded.
//
// It imports nothing of ours, so that whatever writes something down may ask it.
package secrets

import (
	"slices"
	"strings"
	"unicode"
)

// anywhere are parts of words that make a name one of a secret wherever they stand in it.
var anywhere = []string{"password", "passwd", "passphrase", "secret"}

// last are words that do so as the last one.
var last = []string{"pwd", "pass", "passcode", "token", "credential", "credentials", "authorization", "bearer", "cookie",
	"jwt", "apikey", "accesskey", "privatekey", "secretkey", "accesstoken", "authtoken", "refreshtoken", "idtoken"}

// pairs are the last two words of names of secrets. Kafka itself has the certificates among the
// properties of type password.
var pairs = []string{"private key", "api key", "access key", "master key", "keystore key", "encryption key", "signing key",
	"shared key", "account key", "jaas config", "user info", "certificate chain", "truststore certificates"}

// settings are last words of names that speak about a secret and do not hold it, as
// password.encoder.iterations.
var settings = []string{"ms", "seconds", "minutes", "algorithm", "iterations", "length", "enable", "enabled", "disable",
	"disabled", "class", "classes", "type", "file", "files", "path", "location", "dir", "url", "uri", "provider", "count",
	"bytes", "size", "policy", "version", "name", "changed", "required", "expiry"}

// Name says whether what stands under a name is a secret: the name of a property of Kafka's
// (ssl.key.password, listener.name.x.sasl.jaas.config), of a field (clientSecret), of a variable
// (API_TOKEN). It goes by words, so that delegation.token.expiry.time.ms is none.
func Name(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	end := words[len(words)-1]
	if slices.Contains(settings, end) {
		return false
	}
	if slices.Contains(last, end) {
		return true
	}
	for _, word := range words {
		if slices.ContainsFunc(anywhere, func(part string) bool { return strings.Contains(word, part) }) {
			return true
		}
	}
	return len(words) > 1 && slices.Contains(pairs, words[len(words)-2]+" "+end)
}

// wordsOf splits a name at everything that is neither letter nor digit, and where a capital
// follows a small letter, into words in small letters.
func wordsOf(name string) []string {
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	small := false
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			small = false
			continue
		}
		if small && unicode.IsUpper(r) {
			end()
		}
		small = unicode.IsLower(r)
		word.WriteRune(r)
	}
	end()
	return words
}

// common are values that stand under names of secrets and say nothing: taken out where they
// stand, and nowhere else, since the same word means something else there.
var common = []string{"password", "administrator", "passwd", "secret", "changeit", "changeme", "default", "public", "private",
	"kafka-client",
	"client", "clients", "broker", "brokers", "producer", "consumer", "cluster", "controller", "internal", "external",
	"localhost", "ackproof", "ackproof-history", "runner", "message", "messages", "partition", "partitions", "offset", "offsets",
	"record", "records", "process", "header", "history", "events", "finished", "interrupted", "attempt", "return",
	"isolation", "read_committed", "read_uncommitted", "position", "sequence", "replica", "replicas", "settings", "properties",
	"produce", "consume", "string", "number", "confluent", "anonymous", "example", "testing", "unknown", "leader", "follower",
	"embedded", "containers", "franz-go", "apache", "plaintext", "required", "bearer", "authorization", "username"}

// leastKnown is the length of the shortest value, in bytes, that is taken out wherever it stands, and
// leastDigits of one of digits alone: shorter ones are offsets, ports and times as well.
const (
	leastKnown  = 6
	leastDigits = 10
)

// telling says whether a value is one of a kind, so that it may be taken out wherever it
// stands.
func telling(value string) bool {
	if len(value) < leastKnown || slices.Contains(common, strings.ToLower(value)) || isReference(value) {
		return false
	}
	if strings.Trim(value, "0123456789.,:-") == "" {
		return len(value) >= leastDigits
	}
	return strings.Trim(value, string(value[0])) != "" // "******" is no secret
}

// isReference says whether a value only says where a secret is to be had, as ${file:/path:key}.
func isReference(value string) bool {
	return strings.HasPrefix(value, "${") && strings.IndexByte(value, '}') == len(value)-1
}

// nothing says whether a value stands for a secret that is absent or hidden already.
func nothing(value string) bool {
	value = strings.TrimSpace(value)
	switch strings.ToLower(value) {
	case "", "null", "none", "nil", "~", "[]", "{}", `""`, "''", "[hidden]", "[redacted]", "<redacted>", "<hidden>":
		return true
	}
	return strings.Trim(value, "*") == "" || value == Marker
}
