// Package wire is Kafka frames between a client and a broker: decoded, observed
// and intercepted, as a proxy in front of a broker (Network.Proxy) and as a dialer of
// a client in this process (Network.Dialer). Both lead through the same code, and
// nothing of it knows which client or broker is at the ends.
//
// # The life of a frame
//
// A connection has two goroutines, one for each direction, and one for each answer that
// is being held back.
//
// A request is read whole from the client. Its header is read (API key, version,
// correlation id, client id); a Produce request is decoded, down to the heads of its
// batches, not its records. The interceptors are asked what is to become of it, in the
// order in which they were added: the first that does not let it pass decides. Then it
// goes to the broker as the bytes that came, unless the decision says otherwise.
//
// A connection remembers two queues: what the broker has to answer, in the order in
// which it was sent requests, and what the client waits for, in the order in which it
// asked. They differ only where the wire answers itself, sends something of its own,
// or lets one request overtake another. Kafka answers the requests of a connection in
// order, and a client may take any other order for a broken connection, so an answer
// waits for its turn in the client's queue. A Produce request with acks=0 is in
// neither queue: it has no answer.
//
// An answer passes in pieces as it comes. Only what has to be seen is read whole
// first: answers to Produce requests; Metadata answers that carry topic ids, by which
// newer Produce versions name topics; a Fetch answer that a lie is to change; and what
// has to wait, for its turn or because it is held back.
//
// When the fate of a Produce request is known, the observer is told once for each of
// its batches: what the client was given, or what happened instead, and whether the
// broker had it. Every batch of a request that was read whole has exactly one fate,
// also when its connection breaks or the network is closed.
//
// # What cannot be decoded
//
// A request of an API or version that is not known here passes untouched, and so does
// its answer. Where that leaves Produce requests unobserved they are counted
// (Network.Counts). What has no Kafka frame's shape ends its connection. Where a SASL
// exchange without frame headers begins (SaslHandshake version 0) all else on that
// connection passes as mere bytes. TLS between the client and the wire cannot be seen
// through; give the dialer a function that ends in TLS instead.
package wire
