// This file holds a consumer session with a fixed assignment.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One KafkaConsumer. */
final class ConsumerSession implements Adapter.Session {
    private final KafkaConsumer<byte[], byte[]> consumer;

    ConsumerSession(Map<String, Object> command) {
        Map<String, Object> properties = Adapter.properties(command);
        properties.put("key.deserializer", ByteArrayDeserializer.class);
        properties.put("value.deserializer", ByteArrayDeserializer.class);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none"); // a reset is made here, and told
        consumer = new KafkaConsumer<>(properties);
        Map<TopicPartition, Long> positions = positions(command.get("assignment"));
        consumer.assign(positions.keySet());
        if (properties.containsKey("group.id")) {
            committed(positions);
        }
        positions.forEach(consumer::seek);
        properties.keySet().removeIf(name -> !List.of("isolation.level", "group.id", "max.poll.records", "auto.offset.reset").contains(name));
        Adapter.say("opened", "properties", properties, "positions", listed(positions));
    }

    /** Puts the group's committed offsets over the positions. */
    private void committed(Map<TopicPartition, Long> positions) {
        try {
            for (Map.Entry<TopicPartition, OffsetAndMetadata> e : consumer.committed(positions.keySet()).entrySet()) {
                if (e.getValue() != null) {
                    positions.put(e.getKey(), e.getValue().offset());
                }
            }
        } catch (KafkaException e) { // some brokers say so of a group that has never committed
            if (!String.valueOf(e.getMessage()).contains("group id does not exist")) {
                throw e;
            }
        }
    }

    @Override
    public boolean take(String command, Map<String, Object> line) {
        switch (command) {
            case "poll":
                poll(line);
                return true;
            case "commit":
                commit(line);
                return true;
            case "close":
                consumer.close(Duration.ofMillis(Adapter.number(line.get("limit_ms"), 0)));
                Adapter.say("closed");
                return false;
            default:
                throw new IllegalArgumentException("a consumer knows no command " + command);
        }
    }

    private void poll(Map<String, Object> line) {
        List<Object> records = new ArrayList<>();
        List<Object> resets = null;
        String problem = null;
        try {
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(Adapter.number(line.get("limit_ms"), 0)))) {
                records.add(listed(r));
            }
        } catch (OffsetOutOfRangeException e) { // LogTruncationException is one, too
            problem = String.valueOf(e.getMessage());
            resets = reset(e);
        } catch (RuntimeException e) {
            problem = e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        Adapter.say("records", "id", line.get("id"), "records", records, "resets", resets, "error", problem);
    }

    /** Sets positions that fell out of the log to the nearest that it has. */
    private List<Object> reset(OffsetOutOfRangeException e) {
        Map<TopicPartition, Long> lost = e.offsetOutOfRangePartitions();
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(lost.keySet());
        Map<TopicPartition, Long> ends = consumer.endOffsets(lost.keySet());
        Map<TopicPartition, Long> positions = new LinkedHashMap<>();
        lost.forEach((p, at) -> positions.put(p, Math.min(Math.max(at, starts.get(p)), ends.get(p))));
        positions.forEach(consumer::seek);
        return listed(positions);
    }

    private void commit(Map<String, Object> line) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
        positions(line.get("offsets")).forEach((p, offset) -> offsets.put(p, new OffsetAndMetadata(offset)));
        try {
            consumer.commitSync(offsets);
            Adapter.say("committed", "id", line.get("id"));
        } catch (RuntimeException e) {
            Adapter.say("committed", "id", line.get("id"), "error", Errors.kafka(e), "client_error", Errors.client(e),
                "message", String.valueOf(e.getMessage()));
        }
    }

    private static Map<TopicPartition, Long> positions(Object given) {
        Map<TopicPartition, Long> positions = new LinkedHashMap<>();
        for (Object each : Adapter.list(given)) {
            Map<String, Object> p = Adapter.map(each);
            positions.put(new TopicPartition((String) p.get("topic"), ((Long) p.get("partition")).intValue()), (Long) p.get("offset"));
        }
        return positions;
    }

    private static List<Object> listed(Map<TopicPartition, Long> positions) {
        List<Object> list = new ArrayList<>();
        positions.forEach((p, offset) -> {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("topic", p.topic());
            one.put("partition", (long) p.partition());
            one.put("offset", offset);
            list.add(one);
        });
        return list;
    }

    private static Map<String, Object> listed(ConsumerRecord<byte[], byte[]> r) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("topic", r.topic());
        one.put("partition", (long) r.partition());
        one.put("offset", r.offset());
        r.leaderEpoch().ifPresent(epoch -> one.put("leader_epoch", (long) epoch));
        if (r.key() != null) {
            one.put("key", text(r.key()));
        }
        one.put("value", text(r.value()));
        List<Object> headers = new ArrayList<>();
        for (Header h : r.headers()) {
            headers.add(Arrays.asList(h.key(), text(h.value()))); // which may be null
        }
        one.put("headers", headers);
        return one;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
