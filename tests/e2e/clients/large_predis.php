<?php
// predis: argv = path, how many: one pipeline of that many hits. Prints as JSON how many replies, and the last one.
require 'Predis/autoload.php';
ini_set('memory_limit', '-1');
$client = new Predis\Client(['scheme' => 'unix', 'path' => $argv[1], 'read_write_timeout' => 30]);
$replies = $client->pipeline(function ($pipe) use ($argv) {
    for ($n = 0; $n < (int)$argv[2]; $n++) {
        $pipe->hincrby('s77:product_views', '5', 1);
    }
});
echo json_encode([count($replies), end($replies)]), "\n";
