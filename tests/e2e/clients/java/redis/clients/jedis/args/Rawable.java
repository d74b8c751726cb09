/* Of the stand-in for Jedis, see Jedis.java. */
package redis.clients.jedis.args;

public interface Rawable {
    byte[] getRaw();

    @Override
    int hashCode();

    @Override
    boolean equals(Object o);
}
