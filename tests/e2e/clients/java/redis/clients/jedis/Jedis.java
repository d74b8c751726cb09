/* A stand-in of ours for Jedis, which neither Debian nor npm has: what config/recipes.md uses of it, with the signatures and exceptions
 * of Jedis 7.5.3, over a socket. It shows that the page's lines compile against these and what they do when an answer is lost. It cannot
 * show that Jedis itself is as it is here: that is read from its source. */
package redis.clients.jedis;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

public class Jedis implements Closeable {
    private final Socket link = new Socket();
    private final InputStream in;

    public Jedis(final String host, final int port, final int connectionTimeout, final int soTimeout) {
        try {
            link.connect(new InetSocketAddress(host, port), connectionTimeout);
            link.setSoTimeout(soTimeout);
            in = new BufferedInputStream(link.getInputStream());
        } catch (IOException lost) {
            throw new JedisConnectionException(lost);
        }
        // Like Jedis, which does not mind an error.
        for (String[] word : new String[][] {{"LIB-NAME", "jedis"}, {"LIB-VER", "7.5.3"}})
            try {
                sendCommand(() -> "CLIENT".getBytes(StandardCharsets.UTF_8), "SETINFO", word[0], word[1]);
            } catch (JedisDataException refused) {
            }
    }

    public Object sendCommand(ProtocolCommand cmd, String... args) {
        byte[][] words = new byte[args.length][];
        for (int i = 0; i < args.length; i++) words[i] = args[i].getBytes(StandardCharsets.UTF_8);
        return sendCommand(cmd, words);
    }

    public Object sendCommand(ProtocolCommand cmd, byte[]... args) {
        try {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.write(("*" + (args.length + 1) + "\r\n").getBytes(StandardCharsets.UTF_8));
            bulk(request, cmd.getRaw());
            for (byte[] word : args) bulk(request, word);
            request.writeTo(link.getOutputStream());
            return reply();
        } catch (IOException lost) { // its timeout, too
            throw new JedisConnectionException(lost);
        }
    }

    @Override
    public void close() {
        try {
            link.close();
        } catch (IOException gone) {
        }
    }

    private static void bulk(ByteArrayOutputStream to, byte[] word) throws IOException {
        to.write(("$" + word.length + "\r\n").getBytes(StandardCharsets.UTF_8));
        to.write(word);
        to.write('\r');
        to.write('\n');
    }

    private Object reply() throws IOException {
        String line = line();
        String rest = line.substring(1);
        switch (line.charAt(0)) {
            case ':': return Long.valueOf(rest);
            case '+': return rest.getBytes(StandardCharsets.UTF_8);
            case '-': throw new JedisDataException(rest);
            default: throw new JedisConnectionException("Unknown reply: " + line);
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c; (c = in.read()) != '\n'; line.append((char) c))
            if (c < 0) throw new JedisConnectionException("Unexpected end of stream.");
        return line.toString().trim();
    }
}
