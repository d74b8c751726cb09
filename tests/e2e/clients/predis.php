<?php
// predis: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
require 'Predis/autoload.php';
$script = json_decode(file_get_contents($argv[1]), true);
$client = new Predis\Client($argv[2] === 'unix' ? ['scheme' => 'unix', 'path' => $argv[3]]
                                                : ['scheme' => 'tcp', 'host' => '127.0.0.1', 'port' => (int)$argv[3]]);
$replies = ['one_by_one' => []];
foreach ($script['one_by_one'] as [$key, $field, $n]) {
    $replies['one_by_one'][] = $client->hincrby($key, $field, $n);
}
foreach (['pipeline' => 'pipeline', 'multi' => 'transaction'] as $way => $method) {
    $replies[$way] = $client->$method(function ($pipe) use ($script, $way) {
        foreach ($script[$way] as [$key, $field, $n]) {
            $pipe->hincrby($key, $field, $n);
        }
    });
}
echo json_encode($replies), "\n";
