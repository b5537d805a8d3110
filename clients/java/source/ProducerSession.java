// This file holds a producer session.

import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One KafkaProducer. */
final class ProducerSession implements Adapter.Session {
    private static final String[] NAMES = {"acks", "enable.idempotence", "max.in.flight.requests.per.connection", "retries",
        "delivery.timeout.ms", "request.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms", "linger.ms", "batch.size",
        "buffer.memory", "compression.type", "max.block.ms", "max.request.size", "metadata.max.age.ms", "partitioner.class"};

    private final KafkaProducer<byte[], byte[]> producer;

    ProducerSession(Map<String, Object> command) {
        Map<String, Object> properties = Adapter.properties(command);
        properties.put("key.serializer", ByteArraySerializer.class);
        properties.put("value.serializer", ByteArraySerializer.class);
        // Kafka's own rules decide what is in force (KIP-679): ask them.
        Map<String, Object> inForce = Adapter.inForce(new ProducerConfig(properties).values(), NAMES);
        producer = new KafkaProducer<>(properties);
        Adapter.say("opened", "properties", inForce);
    }

    @Override
    public boolean take(String command, Map<String, Object> line) {
        switch (command) {
            case "send":
                send(line);
                return true;
            case "close":
                producer.close(Duration.ofMillis(Adapter.number(line.get("limit_ms"), 0)));
                Adapter.say("closed");
                return false;
            default:
                throw new IllegalArgumentException("a producer knows no command " + command);
        }
    }

    private void send(Map<String, Object> line) {
        Long id = (Long) line.get("id");
        Long partition = (Long) line.get("partition");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>((String) line.get("topic"),
            partition == null ? null : partition.intValue(), bytes(line.get("key")), bytes(line.get("value")));
        for (Object header : Adapter.list(line.get("headers"))) {
            List<Object> pair = Adapter.list(header);
            record.headers().add((String) pair.get(0), bytes(pair.get(1)));
        }
        try {
            producer.send(record, (metadata, e) -> completed(id, metadata, e));
        } catch (RuntimeException e) { // raised by send itself, without a callback
            completed(id, null, e);
        }
    }

    private static byte[] bytes(Object text) {
        return text == null ? null : Base64.getDecoder().decode((String) text);
    }

    private static void completed(Long id, RecordMetadata metadata, Exception e) {
        if (e != null) {
            Adapter.say("result", "id", id, "error", Errors.kafka(e), "client_error", Errors.client(e),
                "message", String.valueOf(e.getMessage()));
            return;
        }
        Adapter.say("result", "id", id, "partition", (long) metadata.partition(),
            "offset", metadata.hasOffset() ? metadata.offset() : null);
    }
}
