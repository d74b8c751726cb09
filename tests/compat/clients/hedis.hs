{-# LANGUAGE OverloadedStrings #-}
-- hedis, which pipelines by itself replies not waited for: argv = script, "unix" or "tcp", path or port. Prints the replies
-- as JSON.
import Control.Monad.IO.Class (liftIO)
import Data.Aeson (decodeFileStrict, encode)
import qualified Data.ByteString.Lazy.Char8 as Lazy
import Data.Map (Map, fromList, (!))
import Data.Text.Encoding (encodeUtf8)
import Data.Text (Text)
import Database.Redis
import System.Environment (getArgs)

type Hit = (Text, Text, Integer)

hit :: RedisCtx m f => Hit -> m (f Integer)
hit (key, field, n) = hincrby (encodeUtf8 key) (encodeUtf8 field) n

number :: Either Reply Integer -> Integer
number = either (error . show) id

main :: IO ()
main = do
    [path, kind, at] <- getArgs
    Just script <- decodeFileStrict path :: IO (Maybe (Map String [Hit]))
    let port = if kind == "unix" then UnixSocket at else PortNumber (read at)
    link <- checkedConnect defaultConnectInfo { connectHost = "127.0.0.1", connectPort = port }
    runRedis link $ do
        one <- mapM (\each -> do { got <- hit each; let { n = number got }; n `seq` return n }) (script ! "one_by_one")
        ahead <- mapM hit (script ! "pipeline")
        together <- multiExec $ do
            queued <- mapM hit (script ! "multi")
            return (sequence queued)
        case together of
            TxSuccess multi -> liftIO $ Lazy.putStrLn $ encode $ fromList
                [("one_by_one" :: String, one), ("pipeline", map number ahead), ("multi", multi)]
            other -> error (show other)
