// This file holds how errors of the Java client are named: by Kafka's name where a broker
// may have said it, else by the client's own class with what its message adds.

import org.apache.kafka.clients.producer.BufferExhaustedException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;

/** Names errors. */
final class Errors {
    private Errors() { }

    /** Kafka's name of the error; null: the client raised it itself. */
    static String kafka(Throwable e) {
        if (client(e) != null) {
            return null;
        }
        return org.apache.kafka.common.protocol.Errors.forException(e).name();
    }

    /** The client's own class of the error; null: a broker said it. */
    static String client(Throwable e) {
        String message = String.valueOf(e.getMessage());
        if (e instanceof BufferExhaustedException) {
            return "BufferExhaustedException";
        }
        if (e instanceof TimeoutException) {
            // A broker's REQUEST_TIMED_OUT has this class, too; either way nothing is known.
            if (message.contains("not present in metadata")) {
                return "TimeoutException: metadata";
            }
            return message.startsWith("Expiring") ? "TimeoutException: delivery" : "TimeoutException";
        }
        if (e instanceof RecordTooLargeException && (message.contains("max.request.size") || message.contains("buffer.memory"))) {
            return "RecordTooLargeException: max.request.size";
        }
        if (e instanceof ApiException && !org.apache.kafka.common.protocol.Errors.forException(e).name().equals("UNKNOWN_SERVER_ERROR")) {
            return null;
        }
        if (e instanceof org.apache.kafka.common.errors.UnknownServerException) {
            return null;
        }
        return e.getClass().getSimpleName();
    }
}
