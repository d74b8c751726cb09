/* Of the stand-in for Jedis, see Jedis.java. */
package redis.clients.jedis.exceptions;

public class JedisDataException extends JedisException {
    private static final long serialVersionUID = 1L;

    public JedisDataException(String message) {
        super(message);
    }

    public JedisDataException(Throwable cause) {
        super(cause);
    }
}
