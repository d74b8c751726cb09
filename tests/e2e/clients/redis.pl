# Redis.pm, or Redis::Fast, its twin: argv = which, script, "unix" or "tcp", path or port. Prints the replies as JSON.
use strict;
use warnings;
use JSON::PP;
use Redis;
use Redis::Fast;

my ($which, $path, $kind, $where) = @ARGV;
open my $file, '<', $path or die $!;
my $script = decode_json(join '', <$file>);
my $client = $which->new($kind eq 'unix' ? (sock => $where) : (server => "127.0.0.1:$where"));
my %replies = (one_by_one => [map { 0 + $client->hincrby(@$_) } @{$script->{one_by_one}}], pipeline => []);
for my $hit (@{$script->{pipeline}}) {
    $client->hincrby(@$hit, sub { push @{$replies{pipeline}}, 0 + $_[0] });
}
$client->wait_all_responses;
$client->multi;
$client->hincrby(@$_) for @{$script->{multi}};
$replies{multi} = [map { 0 + $_ } $client->exec];
print encode_json(\%replies), "\n";
