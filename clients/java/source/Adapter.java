// This file holds the adapter of Apache's Java client: one producer or consumer session,
// driven by lines on standard input, as clients/PROTOCOL.md says.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.BufferedOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;

/** The process: reads commands, hands them to a session, writes what it says. */
public final class Adapter {
    private static final LinkedBlockingQueue<String> SAID = new LinkedBlockingQueue<>();
    private static final String END = "";
    private static Thread writer;

    /** What a session does with commands; false: it is over. */
    interface Session {
        boolean take(String command, Map<String, Object> line);
    }

    private Adapter() { }

    public static void main(String[] arguments) {
        try {
            run();
        } catch (Throwable e) { // the library's threads would keep a process that says nothing
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run() throws Exception {
        OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
        System.setOut(System.err); // whatever a library prints is no line of the protocol
        writer = new Thread(() -> write(out), "writer");
        writer.setDaemon(true);
        writer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        Session session = null;
        boolean goingOn = true;
        while (goingOn) {
            String line = in.readLine();
            if (line == null) { // whoever drove us is gone: end as a crash does
                Runtime.getRuntime().halt(1);
            }
            Map<String, Object> command = Json.object(line);
            String what = String.valueOf(command.get("do"));
            if (what.equals("describe")) {
                say("client", "client", "java", "version", version(), "protocol", 1L);
            } else if (what.equals("open") && session == null) {
                session = open(command);
                goingOn = session != null;
            } else if (session != null) {
                goingOn = session.take(what, command);
            } else {
                throw new IllegalArgumentException("the command " + what + " came before open");
            }
        }
        SAID.put(END);
        writer.join();
        Runtime.getRuntime().halt(0); // nothing that the library still runs keeps us
    }

    /** The version of kafka-clients, as its jar says. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = Adapter.class.getClassLoader().getResourceAsStream("kafka/kafka-version.properties")) {
            if (in != null) {
                properties.load(in);
            }
        }
        return properties.getProperty("version", "unknown");
    }

    private static Session open(Map<String, Object> command) {
        try {
            return command.get("role").equals("consumer") ? new ConsumerSession(command) : new ProducerSession(command);
        } catch (RuntimeException e) {
            Throwable cause = e;
            while (cause.getCause() != null && !(cause instanceof org.apache.kafka.common.config.ConfigException)) {
                cause = cause.getCause();
            }
            say("refused", "error", cause.getClass().getSimpleName(), "message", String.valueOf(cause.getMessage()));
            return null;
        }
    }

    /** Says a line: its kind, then names and values; null values are left out. */
    static void say(String is, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("is", is);
        for (int i = 0; i < fields.length; i += 2) {
            if (fields[i + 1] != null) {
                line.put((String) fields[i], fields[i + 1]);
            }
        }
        SAID.add(Json.write(line));
    }

    private static void write(OutputStream out) {
        try {
            while (true) {
                String line = SAID.poll();
                if (line == null) { // nothing more to say now
                    out.flush();
                    line = SAID.take();
                }
                if (line.equals(END)) {
                    out.flush();
                    return;
                }
                out.write(line.getBytes(StandardCharsets.UTF_8));
                out.write('\n');
            }
        } catch (IOException | InterruptedException e) {
            Runtime.getRuntime().halt(1); // nobody hears us
        }
    }

    /** The properties of a session: those that were given, and where the brokers are. */
    static Map<String, Object> properties(Map<String, Object> command) {
        Map<String, Object> properties = new LinkedHashMap<>();
        properties.putAll(map(command.get("properties")));
        List<String> bootstrap = new ArrayList<>();
        for (Object address : list(command.get("bootstrap"))) {
            bootstrap.add((String) address);
        }
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", command.get("name"));
        return properties;
    }

    /** The values of the named properties that are in force, as text. */
    static Map<String, Object> inForce(Map<String, ?> values, String... names) {
        Map<String, Object> properties = new LinkedHashMap<>();
        for (String name : names) {
            Object value = values.get(name);
            if (value instanceof Class) {
                value = ((Class<?>) value).getName();
            }
            if (value != null) {
                properties.put(name, name.equals("acks") && value.equals("-1") ? "all" : String.valueOf(value));
            }
        }
        return properties;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
        return value == null ? new LinkedHashMap<>() : (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    static List<Object> list(Object value) {
        return value == null ? new ArrayList<>() : (List<Object>) value;
    }

    static long number(Object value, long byDefault) {
        return value instanceof Long ? (Long) value : byDefault;
    }
}
