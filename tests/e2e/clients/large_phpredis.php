<?php
// php-redis: argv = path, how many: one pipeline of that many hits. Prints as JSON how many replies, and the last one.
$client = new Redis();
$client->connect($argv[1]);
$pipe = $client->multi(Redis::PIPELINE);
for ($n = 0; $n < (int)$argv[2]; $n++) {
    $pipe->hIncrBy('s77:product_views', '5', 1);
}
$replies = $pipe->exec();
echo json_encode([count($replies), end($replies)]), "\n";
