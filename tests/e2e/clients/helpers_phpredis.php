<?php
// php-redis: argv = path. Prints as JSON what its calls make of the server.
$client = new Redis();
$client->connect($argv[1]);
$client->client('setname', 'helper');
$list = array_filter($client->client('list'), fn($each) => $each['name'] === 'helper');
echo json_encode(['role' => $client->role(), 'info_role' => $client->info('replication')['role'],
                  'ping' => $client->ping('x'), 'name' => $client->client('getname'), 'listed' => count($list)]), "\n";
