// This file holds the little JSON that the protocol needs: strict, and without a library,
// since kafka-clients brings none.

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON: Map, List, String, Long, Double, Boolean and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one object that takes up the whole line; IllegalArgumentException says where it is none. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String line) {
        Json json = new Json(line);
        Object value = json.value();
        json.space();
        if (json.at != line.length() || !(value instanceof Map)) {
            throw json.wrong("one object");
        }
        return (Map<String, Object>) value;
    }

    private IllegalArgumentException wrong(String wanted) {
        return new IllegalArgumentException("column " + (at + 1) + ": " + wanted + " was expected");
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char next() {
        space();
        if (at >= text.length()) {
            throw wrong("more");
        }
        return text.charAt(at);
    }

    private void take(char c) {
        if (next() != c) {
            throw wrong("'" + c + "'");
        }
        at++;
    }

    private Object value() {
        switch (next()) {
            case '{':
                return map();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> map() {
        Map<String, Object> map = new LinkedHashMap<>();
        take('{');
        if (next() == '}') {
            at++;
            return map;
        }
        while (true) {
            next();
            String name = string();
            take(':');
            map.put(name, value());
            if (next() == '}') {
                at++;
                return map;
            }
            take(',');
        }
    }

    private List<Object> list() {
        List<Object> list = new ArrayList<>();
        take('[');
        if (next() == ']') {
            at++;
            return list;
        }
        while (true) {
            list.add(value());
            if (next() == ']') {
                at++;
                return list;
            }
            take(',');
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong(word);
        }
        at += word.length();
        return value;
    }

    private Object number() {
        int from = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(from, at);
        try {
            if (digits.matches("-?\\d+")) {
                return Long.parseLong(digits);
            }
            return Double.parseDouble(digits);
        } catch (NumberFormatException e) {
            at = from;
            throw wrong("a value");
        }
    }

    private String string() {
        take('"');
        StringBuilder b = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return b.toString();
            }
            b.append(c == '\\' ? escaped() : c);
        }
        throw wrong("the end of a string");
    }

    private char escaped() {
        if (at >= text.length()) {
            throw wrong("an escape");
        }
        char c = text.charAt(at++);
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                if (at + 4 <= text.length()) {
                    try {
                        char unit = (char) Integer.parseInt(text.substring(at, at + 4), 16);
                        at += 4;
                        return unit;
                    } catch (NumberFormatException e) {
                        throw wrong("four hexadecimal digits");
                    }
                }
                throw wrong("four hexadecimal digits");
            default:
                throw wrong("an escape");
        }
    }

    /** Writes a value in one line. */
    static String write(Object value) {
        StringBuilder b = new StringBuilder();
        write(b, value);
        return b.toString();
    }

    private static void write(StringBuilder b, Object value) {
        if (value instanceof Map) {
            b.append('{');
            String comma = "";
            for (Map.Entry<?, ?> e : ((Map<?, ?>) value).entrySet()) {
                b.append(comma);
                quote(b, String.valueOf(e.getKey()));
                b.append(':');
                write(b, e.getValue());
                comma = ",";
            }
            b.append('}');
        } else if (value instanceof List) {
            b.append('[');
            String comma = "";
            for (Object e : (List<?>) value) {
                b.append(comma);
                write(b, e);
                comma = ",";
            }
            b.append(']');
        } else if (value instanceof String) {
            quote(b, (String) value);
        } else {
            b.append(value); // numbers, true, false, null
        }
    }

    private static void quote(StringBuilder b, String s) {
        b.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        b.append('"');
    }
}
