<?php
// php-redis, with the loop that a shop writes around it: argv = path, how many. Prints the replies as JSON.
function sent($path, $n)
{
    for ($left = 10;; $left--) {
        try {
            static $client = null;
            if ($client === null) {
                $client = new Redis();
                $client->connect($path);
                // It may connect again by itself, and wait there for the answer that was lost: by default for a minute.
                $client->setOption(Redis::OPT_READ_TIMEOUT, 3);
            }
            $reply = $client->rawCommand('CTR.INCRBY', 's77:product_views', '5', '2', 'TOKEN', "order-$n");
            if ($reply !== false) return $reply;
        } catch (RedisException $lost) {
        }
        if ($left === 0) throw new Exception("order-$n: no answer");
        $client = null;
    }
}
echo json_encode(array_map(fn($n) => sent($argv[1], $n), range(0, (int)$argv[2] - 1))), "\n";
