<?php
// predis, with the loop that a shop writes around it: argv = path, how many. Prints the replies as JSON.
require 'Predis/autoload.php';
$client = new Predis\Client(['scheme' => 'unix', 'path' => $argv[1]]);
function sent($client, $n)
{
    for ($left = 10;; $left--) {
        try {
            return $client->executeRaw(['CTR.INCRBY', 's77:product_views', '5', '2', 'TOKEN', "order-$n"]);
        } catch (Predis\Connection\ConnectionException $lost) {
            if ($left === 0) throw $lost;
            $client->disconnect();
        }
    }
}
echo json_encode(array_map(fn($n) => sent($client, $n), range(0, (int)$argv[2] - 1))), "\n";
