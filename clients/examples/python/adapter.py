"""A client adapter in Python: librdkafka, by confluent-kafka, for verify --client-exec.

It speaks the line protocol of clients/PROTOCOL.md: one process is one session, commands
come on standard input, answers go to standard output, one JSON object a line.
"""

import base64
import json
import sys
import threading

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

# What librdkafka does where it is told nothing, under Kafka's names.
DEFAULTS = {
    "acks": "all", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "1000000",
    "retries": "2147483647", "delivery.timeout.ms": "300000", "request.timeout.ms": "30000", "linger.ms": "5",
    "batch.size": "1000000", "compression.type": "none", "retry.backoff.ms": "100",
}
# Kafka's properties that librdkafka has under another name.
RENAMED = {
    "max.in.flight.requests.per.connection": "max.in.flight", "delivery.timeout.ms": "message.timeout.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms", "compression.type": "compression.codec",
}
SAME = ("acks", "enable.idempotence", "retries", "request.timeout.ms", "linger.ms", "batch.size", "retry.backoff.ms")
# Broker errors that librdkafka names otherwise than Kafka does.
KAFKAS_NAME = {"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER", "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
               "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION", "INVALID_MSG": "CORRUPT_MESSAGE",
               "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION"}
MOST_IN_FLIGHT = 5  # of an idempotent producer

speaking = threading.Lock()


class Refused(Exception):
    """The library refuses or cannot honour a property."""


def say(kind, **fields):
    line = {"is": kind, **{name: value for name, value in fields.items() if value is not None}}
    with speaking:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def decoded(text):
    return None if text is None else base64.b64decode(text)


def named(error):
    """The fields of an error: Kafka's name where a broker said it, else librdkafka's own."""
    name = error.name()
    if error.code() < -1:  # librdkafka's own errors have numbers below
        return {"client_error": name, "message": error.str()}
    return {"error": KAFKAS_NAME.get(name, name), "message": error.str()}


def producer_configuration(asked):
    """What librdkafka is told, and what is then in force, under Kafka's names."""
    told, in_force = {}, {**DEFAULTS, **asked}
    for name, value in asked.items():
        if name == "buffer.memory":
            if int(value) % 1024:
                raise Refused(f"{name}={value}: librdkafka counts its buffer in KiB")
            told["queue.buffering.max.kbytes"] = int(value) // 1024
        elif name in RENAMED:
            told[RENAMED[name]] = value
        elif name in SAME:
            told[name] = value
        else:
            raise Refused(f"{name}={value}: librdkafka has no equal of it")
    if in_force["enable.idempotence"] == "true":
        if "max.in.flight.requests.per.connection" not in asked:
            in_force["max.in.flight.requests.per.connection"] = str(MOST_IN_FLIGHT)
    return told, in_force


class ProducerSession:
    def __init__(self, command):
        told, in_force = producer_configuration(command["properties"])
        self.producer = Producer({**told, "bootstrap.servers": ",".join(command["bootstrap"]),
                                  "client.id": command["name"]})
        say("opened", properties=in_force)
        self.ended = threading.Event()
        self.poller = threading.Thread(target=self.poll, daemon=True)
        self.poller.start()

    def poll(self):
        """Results come in callbacks, and callbacks only while somebody polls."""
        while not self.ended.is_set():
            self.producer.poll(0.05)

    def take(self, command):
        if command["do"] == "send":
            self.send(command)
            return True
        if command["do"] == "close":
            self.producer.flush(command["limit_ms"] / 1000)
            self.ended.set()
            self.poller.join()
            say("closed")
            return False
        raise ValueError(f"a producer knows no command {command['do']}")

    def send(self, command):
        number = command["id"]

        def result(error, message):
            if error is not None:
                say("result", id=number, **named(error))
                return
            offset = message.offset()
            say("result", id=number, partition=message.partition(), offset=offset if offset >= 0 else None)

        where = {} if command.get("partition") is None else {"partition": command["partition"]}
        headers = [(name, decoded(value)) for name, value in command.get("headers") or []]
        while True:
            try:
                self.producer.produce(command["topic"], value=decoded(command.get("value")), key=decoded(command.get("key")),
                                      headers=headers, on_delivery=result, **where)
                return
            except BufferError:  # full: wait for room, and let verify wait for us
                self.ended.wait(0.01)
            except KafkaException as e:
                say("result", id=number, **named(e.args[0]))
                return


class ConsumerSession:
    def __init__(self, command):
        asked = dict(command["properties"])
        self.most = int(asked.pop("max.poll.records", "500"))
        has_group = "group.id" in asked
        self.consumer = Consumer({
            "group.id": command["name"],  # librdkafka wants one, and commits nothing by itself
            **asked, "bootstrap.servers": ",".join(command["bootstrap"]), "client.id": command["name"],
            "enable.auto.commit": False, "enable.partition.eof": False, "auto.offset.reset": "error"})
        positions = [TopicPartition(p["topic"], p["partition"], p["offset"]) for p in command["assignment"]]
        if has_group:
            for position, offset in zip(positions, self.committed(positions)):
                position.offset = offset if offset >= 0 else position.offset
        self.consumer.assign(positions)
        say("opened", properties=asked, positions=[listed(p) for p in positions])

    def committed(self, positions):
        """The group's committed offsets; below zero where it has none."""
        try:
            asked_for = [TopicPartition(p.topic, p.partition) for p in positions]
            return [p.offset for p in self.consumer.committed(asked_for, 30)]
        except KafkaException as e:  # some brokers say so of a group that has never committed
            if e.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
            return [-1] * len(positions)

    def take(self, command):
        if command["do"] == "poll":
            self.poll(command)
            return True
        if command["do"] == "commit":
            self.commit(command)
            return True
        if command["do"] == "close":
            self.consumer.close()
            say("closed")
            return False
        raise ValueError(f"a consumer knows no command {command['do']}")

    def poll(self, command):
        records, resets, problem = [], [], None
        for message in self.consumer.consume(self.most, command["limit_ms"] / 1000):
            if message.error() is None:
                records.append({
                    "topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
                    "leader_epoch": message.leader_epoch(), "key": encoded(message.key()), "value": encoded(message.value()),
                    "headers": [[name, encoded(value)] for name, value in message.headers() or []]})
                continue
            problem = message.error().str()
            if message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                resets.append(self.reset(message))
        say("records", id=command["id"], records=records, resets=resets or None, error=problem)

    def reset(self, message):
        """Sets a position that fell out of the log to the nearest that it has."""
        at = TopicPartition(message.topic(), message.partition())
        low, high = self.consumer.get_watermark_offsets(at, 30)
        at.offset = min(max(message.offset(), low), high)
        self.consumer.seek(at)
        return listed(at)

    def commit(self, command):
        offsets = [TopicPartition(p["topic"], p["partition"], p["offset"]) for p in command["offsets"]]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
            say("committed", id=command["id"])
        except KafkaException as e:
            say("committed", id=command["id"], **named(e.args[0]))


def listed(position):
    return {"topic": position.topic, "partition": position.partition, "offset": position.offset}


def open_session(command):
    """The session, or None where the library refuses it."""
    try:
        return (ConsumerSession if command["role"] == "consumer" else ProducerSession)(command)
    except Refused as e:
        say("refused", error="Refused", message=str(e))
    except KafkaException as e:
        say("refused", error=e.args[0].name(), message=e.args[0].str())
    return None


def main():
    session = None
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "describe":
            say("client", client="librdkafka", version=confluent_kafka.libversion()[0], protocol=1)
        elif command["do"] == "open":
            session = open_session(command)
            if session is None:
                return
        elif not session.take(command):
            return


main()
