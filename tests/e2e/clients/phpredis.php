<?php
// php-redis: argv = script, "unix" or "tcp", path or port. Prints the replies as JSON.
$script = json_decode(file_get_contents($argv[1]), true);
$client = new Redis();
$argv[2] === 'unix' ? $client->connect($argv[3]) : $client->connect('127.0.0.1', (int)$argv[3]);
$replies = ['one_by_one' => []];
foreach ($script['one_by_one'] as [$key, $field, $n]) {
    $replies['one_by_one'][] = $client->hIncrBy($key, $field, $n);
}
foreach (['pipeline' => Redis::PIPELINE, 'multi' => Redis::MULTI] as $way => $mode) {
    $pipe = $client->multi($mode);
    foreach ($script[$way] as [$key, $field, $n]) {
        $pipe->hIncrBy($key, $field, $n);
    }
    $replies[$way] = $pipe->exec();
}
echo json_encode($replies), "\n";
