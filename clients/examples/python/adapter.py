"""An adapter for confluent-kafka, which is librdkafka: it speaks the line protocol of ../../PROTOCOL.md.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    verify run lost-ack --client-exec "venv/bin/python adapter.py"
"""

import base64
import json
import os
import sys
import threading
import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

# Kafka's name of a producer's property: librdkafka's names of it, and librdkafka's default (CONFIGURATION.md of the
# version in requirements.txt; librdkafka cannot be asked). What is not here is refused.
PRODUCER_PROPERTIES = {
    "acks": (["acks"], "all"),
    "batch.size": (["batch.size"], "1000000"),
    "buffer.memory": (["queue.buffering.max.kbytes"], "1073741824"),
    "compression.type": (["compression.type"], "none"),
    "delivery.timeout.ms": (["delivery.timeout.ms"], "300000"),
    "enable.idempotence": (["enable.idempotence"], "false"),
    "linger.ms": (["linger.ms"], "5"),
    "max.in.flight.requests.per.connection": (["max.in.flight.requests.per.connection"], "1000000"),
    # librdkafka's own metadata.max.age.ms is something else: how long its cache is good.
    "metadata.max.age.ms": (["topic.metadata.refresh.interval.ms"], "300000"),
    # Kafka's is how long the client waits, and what it tells the broker to wait. In librdkafka these are two, and the
    # one of the same name is the broker's alone.
    "request.timeout.ms": (["socket.timeout.ms", "request.timeout.ms"], "60000"),
    "retries": (["retries"], "2147483647"),
    "retry.backoff.ms": (["retry.backoff.ms"], "100"),
}

# The values that mean the same to both, where librdkafka takes others too: a time of 0 means never to it, for instance.
ALLOWED = {
    "acks": lambda value: value in ("all", "-1", "0", "1"),
    "buffer.memory": lambda value: value.isdigit() and int(value) % 1024 == 0,  # it counts in kbytes
    "delivery.timeout.ms": lambda value: value.isdigit() and int(value) > 0,
    "enable.idempotence": lambda value: value in ("true", "false"),
    "metadata.max.age.ms": lambda value: value.isdigit() and int(value) > 0,
    # It limits those retries alone that could write a record twice: after NOT_LEADER_OR_FOLLOWER it always tries again.
    "retries": lambda value: value == "2147483647",
}

# Brokers' errors that librdkafka calls by another name than Kafka.
KAFKA_NAMES = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_MSG_SIZE": "INVALID_FETCH_SIZE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "STALE_CTRL_EPOCH": "STALE_CONTROLLER_EPOCH",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
}


class ConfigException(Exception):
    """A property that librdkafka cannot honour."""


def say(what, **fields):
    line = json.dumps({"is": what, **{name: value for name, value in fields.items() if value is not None}})
    # One write of the buffered stream is whole, whichever thread it comes from.
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def commands():
    for line in sys.stdin.buffer:
        yield json.loads(line)
    os._exit(0)  # Whoever drove us is gone. The usual way out would let the library finish what it is at.


def failure(error):
    if error.code() >= KafkaError.UNKNOWN:  # below are librdkafka's own, whose names begin with an underscore
        return {"error": KAFKA_NAMES.get(error.name(), error.name()), "message": error.str()}
    return {"client_error": error.name(), "message": error.str()}


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text is None else base64.b64decode(text)


# ---- Producer


def translate(asked):
    """Kafka's properties as librdkafka's, and what is in force then under Kafka's names."""
    config = {}
    for name, value in asked.items():
        if name not in PRODUCER_PROPERTIES:
            raise ConfigException(f"librdkafka has nothing that does what Kafka's {name} does")
        if name in ALLOWED and not ALLOWED[name](value):
            raise ConfigException(f"librdkafka cannot honour {name}={value}")
        for librdkafka_name in PRODUCER_PROPERTIES[name][0]:
            config[librdkafka_name] = value
    if "buffer.memory" in asked:
        config["queue.buffering.max.kbytes"] = int(asked["buffer.memory"]) // 1024
        config["queue.buffering.max.messages"] = 0  # else a number of records would be the limit before the bytes are

    in_force = {name: default for name, (_, default) in PRODUCER_PROPERTIES.items()}
    if asked.get("enable.idempotence") == "true":
        in_force["max.in.flight.requests.per.connection"] = "5"  # librdkafka lowers its default, and refuses more
    in_force["partitioner.class"] = "consistent_random"  # crc32 of the key, where Kafka's is murmur2
    return config, in_force | asked


def open_producer(opening):
    config, in_force = translate(opening["properties"])
    producer = Producer({"bootstrap.servers": ",".join(opening["bootstrap"]), "client.id": opening["name"], **config})
    say("opened", properties=in_force)
    return producer


def serve_producer(producer):
    # librdkafka calls on_delivery from poll alone. A thread does that, since this one waits for commands.
    closing = threading.Event()

    def serve_results():
        while not closing.is_set():
            producer.poll(0.1)

    poller = threading.Thread(target=serve_results, daemon=True)
    poller.start()

    for command in commands():
        if command["do"] == "send":
            send(producer, command)
        elif command["do"] == "close":
            closing.set()
            poller.join()
            if producer.flush(command["limit_ms"] / 1000) > 0:
                producer.purge()  # Given up. Each has its result: whether it was still queued, or in flight.
                producer.flush()
            say("closed")
            return


def send(producer, command):
    def on_delivery(error, message):
        if error is not None:
            say("result", id=command["id"], **failure(error))
        else:
            say("result", id=command["id"], partition=message.partition(), offset=message.offset())

    record = {
        "topic": command["topic"],
        "key": decode(command.get("key")),
        "value": decode(command.get("value")),
        "headers": [(name, decode(value)) for name, value in command.get("headers") or []],
        "on_delivery": on_delivery,
    }
    if command.get("partition") is not None:
        record["partition"] = command["partition"]
    while True:
        try:
            return producer.produce(**record)
        except BufferError:
            time.sleep(0.001)  # The buffer is full: block, as Kafka's producer does. The library has not taken the record.
        except KafkaException as exception:
            # No broker has seen the record, though librdkafka calls some of these by a broker's name (MSG_SIZE_TOO_LARGE).
            error = exception.args[0]
            return say("result", id=command["id"], client_error=error.name(), message=error.str())


# ---- Consumer


def open_consumer(opening):
    in_force = {"isolation.level": "read_committed", "max.poll.records": "500"} | opening["properties"]
    for name in in_force.keys() - {"isolation.level", "max.poll.records", "group.id"}:
        raise ConfigException(f"librdkafka has nothing that does what Kafka's {name} does")
    consumer = Consumer({
        "bootstrap.servers": ",".join(opening["bootstrap"]),
        "client.id": opening["name"],
        # librdkafka reads in no other way than with a group's name. Nothing is asked or committed under this one.
        "group.id": in_force.get("group.id", opening["name"]),
        "isolation.level": in_force["isolation.level"],
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",  # else librdkafka would go elsewhere without a word: see set_anew
    })
    positions = [TopicPartition(at["topic"], at["partition"], at["offset"]) for at in opening["assignment"]]
    if "group.id" in in_force:
        positions = from_committed(consumer, positions)
    consumer.assign(positions)
    say("opened", properties=in_force, positions=[place(at) for at in positions])
    return consumer, int(in_force["max.poll.records"])


def serve_consumer(opened):
    consumer, max_records = opened
    lost = []  # positions that the log does not have
    for command in commands():
        if command["do"] == "poll":
            poll(consumer, command, max_records, lost)
        elif command["do"] == "commit":
            commit(consumer, command)
        elif command["do"] == "close":
            consumer.close()
            say("closed")
            return


def place(at):
    return {"topic": at.topic, "partition": at.partition, "offset": at.offset}


def from_committed(consumer, positions):
    try:
        committed = consumer.committed(positions)
        for at in committed:
            if at.error is not None:
                raise KafkaException(at.error)
    except KafkaException as exception:
        if exception.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise
        return positions
    # A negative offset says that nothing is committed for the partition.
    return [there if there.offset >= 0 else asked for there, asked in zip(committed, positions)]


def poll(consumer, command, max_records, lost):
    deadline = time.monotonic() + command["limit_ms"] / 1000

    def time_left():
        return max(0, deadline - time.monotonic())

    records, resets, errors = [], [], []
    while lost:
        try:
            resets.append(set_anew(consumer, lost[0], time_left()))
        except KafkaException as exception:
            errors.append(str(exception))
            break
        lost.pop(0)

    # consume waits until it has all that it is asked for: so wait for one, and take what has come with it.
    messages = consumer.consume(1, time_left())
    if messages and max_records > 1:
        messages += consumer.consume(max_records - 1, 0)
    for message in messages:
        if message.error() is None:
            records.append(record_of(message))
        elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
            lost.append(TopicPartition(message.topic(), message.partition(), message.offset()))
        else:
            errors.append(str(message.error()))
    say("records", id=command["id"], records=records, resets=resets or None, error="; ".join(errors) or None)


def set_anew(consumer, position, seconds):
    low, high = consumer.get_watermark_offsets(position, timeout=seconds)
    nearest = TopicPartition(position.topic, position.partition, min(max(position.offset, low), high))
    # librdkafka has stopped reading the partition, and does not seek in one that is not read.
    consumer.incremental_unassign([position])
    consumer.incremental_assign([nearest])
    return place(nearest)


def record_of(message):
    record = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "leader_epoch": message.leader_epoch(),
        "key": encode(message.key()),
        "value": encode(message.value()),
        "headers": [[name, encode(value)] for name, value in message.headers() or []],
    }
    return {name: value for name, value in record.items() if value is not None}


def commit(consumer, command):
    offsets = [TopicPartition(at["topic"], at["partition"], at["offset"]) for at in command["offsets"]]
    try:
        for at in consumer.commit(offsets=offsets, asynchronous=False):
            if at.error is not None:
                raise KafkaException(at.error)
    except KafkaException as exception:
        say("committed", id=command["id"], **failure(exception.args[0]))
    else:
        say("committed", id=command["id"])


ROLES = {"producer": (open_producer, serve_producer), "consumer": (open_consumer, serve_consumer)}


def main():
    for command in commands():
        if command["do"] == "describe":
            version = f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"
            say("client", client="confluent-kafka-python", version=version, protocol=1)
        elif command["do"] == "open":
            open_session, serve_session = ROLES[command["role"]]
            try:
                opened = open_session(command)
            except ConfigException as exception:
                return say("refused", error="ConfigException", message=str(exception))
            except KafkaException as exception:
                return say("refused", error=exception.args[0].name(), message=exception.args[0].str().strip())
            return serve_session(opened)


main()
