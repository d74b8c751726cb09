/* Of the stand-in for Jedis, see Jedis.java. */
package redis.clients.jedis.exceptions;

public class JedisException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public JedisException(String message) {
        super(message);
    }

    public JedisException(Throwable cause) {
        super(cause);
    }
}
