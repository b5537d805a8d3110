-- What answers say about the append of the batch that was answered.

-- Kafka's error codes as answers to a produce, by acks: 'yes' appended, 'no' nothing was
-- appended anywhere, 'unknown' either. A name that is not here says nothing, whatever the acks.
CREATE OR REPLACE TEMPORARY VIEW answer_meanings AS
SELECT * FROM (VALUES
  ('NONE', 'yes', 'yes'),
  ('DUPLICATE_SEQUENCE_NUMBER', 'yes', 'yes'),
  ('CORRUPT_MESSAGE', 'no', 'no'),
  ('UNKNOWN_TOPIC_OR_PARTITION', 'no', 'unknown'),
  ('NOT_LEADER_OR_FOLLOWER', 'no', 'unknown'),
  ('NOT_LEADER_FOR_PARTITION', 'no', 'unknown'),
  ('MESSAGE_TOO_LARGE', 'no', 'no'),
  ('INVALID_TOPIC_EXCEPTION', 'no', 'no'),
  ('INVALID_TOPIC', 'no', 'no'),
  ('RECORD_LIST_TOO_LARGE', 'no', 'no'),
  ('NOT_ENOUGH_REPLICAS', 'no', 'no'),
  ('INVALID_REQUIRED_ACKS', 'no', 'no'),
  ('TOPIC_AUTHORIZATION_FAILED', 'no', 'no'),
  ('CLUSTER_AUTHORIZATION_FAILED', 'no', 'no'),
  ('INVALID_TIMESTAMP', 'no', 'no'),
  ('INVALID_REQUEST', 'no', 'no'),
  ('UNSUPPORTED_FOR_MESSAGE_FORMAT', 'no', 'no'),
  ('POLICY_VIOLATION', 'no', 'no'),
  ('OUT_OF_ORDER_SEQUENCE_NUMBER', 'no', 'no'),
  ('INVALID_PRODUCER_EPOCH', 'no', 'no'),
  ('INVALID_TXN_STATE', 'no', 'no'),
  ('INVALID_PRODUCER_ID_MAPPING', 'no', 'no'),
  ('CONCURRENT_TRANSACTIONS', 'no', 'no'),
  ('TRANSACTIONAL_ID_AUTHORIZATION_FAILED', 'no', 'no'),
  ('UNKNOWN_PRODUCER_ID', 'no', 'no'),
  ('FENCED_LEADER_EPOCH', 'no', 'no'),
  ('UNKNOWN_LEADER_EPOCH', 'no', 'no'),
  ('UNSUPPORTED_COMPRESSION_TYPE', 'no', 'no'),
  ('INVALID_RECORD', 'no', 'no'),
  ('PRODUCER_FENCED', 'no', 'no'),
  ('UNKNOWN_TOPIC_ID', 'no', 'no'),
  ('INCONSISTENT_TOPIC_ID', 'no', 'no'),
  ('TRANSACTION_ABORTABLE', 'no', 'no')
) AS meanings (answer, with_acks_1, with_acks_all);

-- Errors that a client library raises itself, before anything of the record is sent.
CREATE OR REPLACE TEMPORARY VIEW definite_client_errors AS
SELECT * FROM (VALUES
  ('franz-go', 'kgo.ErrMaxBuffered'),
  ('franz-go', 'kgo.errNoTopic'),
  ('franz-go', 'kgo.errNotInTransaction'),
  ('java', 'SerializationException'),
  ('java', 'RecordTooLargeException: max.request.size'),
  ('java', 'TimeoutException: metadata'),
  ('java', 'BufferExhaustedException'),
  ('java', 'IllegalStateException'),
  ('java', 'TransactionAbortedException'),
  ('librdkafka', 'RD_KAFKA_MSG_STATUS_NOT_PERSISTED')
) AS errors (client, client_error);
