# Redis.pm: argv = path. Prints as JSON what its calls make of the server.
use strict;
use warnings;
use JSON::PP;
use Redis;

my $client = Redis->new(sock => $ARGV[0], name => 'helper');
my $info = $client->info('replication');
print encode_json({role => [$client->role], info_role => $info->{role}, ping => $client->ping,
                   name => $client->client_getname}), "\n";
