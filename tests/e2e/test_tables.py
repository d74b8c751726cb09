"""Tables of shops, forums and packages as their programs make them: tallyd adds its hits to one copy, the program's own statements
to another. The rows are the same, the program's other statements still run, and nothing was altered but what is said."""
import os
import re

import pytest

from harness.books import nothing_left
from harness.mariadb import numbers
from harness.resp import RespError
from harness.wait import wait_until

INNODB, KEY = "ENGINE=InnoDB", "ADD UNIQUE KEY"


def counter(key, field, table, columns):
    return {"key": key, "field": field, "sync": {"hits": 10**9, "every": "3600s"}, "table": table, "columns": columns}


# name: the tables, their counters, rows that are there, what the program runs for the hits, the hits, what else it runs, the rows to
# compare, and what check asks for.
SHAPES = {
    "opencart 4, a count of INT": (
        ["CREATE TABLE product_viewed (product_id INT NOT NULL, viewed INT NOT NULL, PRIMARY KEY (product_id))"],
        {"viewed": counter("product:seen", "integer", "product_viewed", {"field": "product_id", "count": "viewed"})},
        ["INSERT INTO product_viewed VALUES (42, 10)"],
        ["INSERT INTO product_viewed SET product_id = 42, viewed = 3 ON DUPLICATE KEY UPDATE viewed = viewed + 3",
         "INSERT INTO product_viewed SET product_id = 43, viewed = 2 ON DUPLICATE KEY UPDATE viewed = viewed + 2"],
        [("product:seen", 42, 3), ("product:seen", 43, 2)],
        ["SELECT product_id, viewed FROM product_viewed ORDER BY viewed DESC LIMIT 0, 20"],
        "SELECT product_id, viewed FROM product_viewed ORDER BY 1", []),
    "mediawiki, AUTO_INCREMENT on the counter's key": (
        ["CREATE TABLE hit_counter (page_id INT(8) UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
         " page_counter BIGINT(20) UNSIGNED NOT NULL DEFAULT 0, KEY page_counter (page_counter))"],
        {"hits": counter("pages:hits", "integer", "hit_counter", {"field": "page_id", "count": "page_counter"})},
        ["INSERT INTO hit_counter VALUES (42, 10)"],
        ["UPDATE hit_counter SET page_counter = page_counter - 3 WHERE page_id = 42",
         "INSERT INTO hit_counter (page_id, page_counter) VALUES (43, 2) ON DUPLICATE KEY UPDATE page_counter = page_counter + 2",
         "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
         "INSERT INTO hit_counter (page_id, page_counter) VALUES (0, 7)"],
        [("pages:hits", 42, -3), ("pages:hits", 43, 2), ("pages:hits", 0, 4), ("pages:hits", 0, 3)],
        [], "SELECT page_id, page_counter FROM hit_counter ORDER BY 1", []),
    "gitlab, an id of its own and nullable keys": (
        ["CREATE TABLE project_daily_statistics (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, project_id INT NOT NULL,"
         " fetch_count INT NOT NULL, date DATE NULL, UNIQUE KEY u (project_id, date))"],
        {"fetches": counter("project:<store>:fetches", "date", "project_daily_statistics",
                            {"store": "project_id", "field": "date", "count": "fetch_count"})},
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (42, 10, '2024-05-01'), (42, 1, NULL)"],
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (42, 3, '2024-05-01')"
         " ON DUPLICATE KEY UPDATE fetch_count = fetch_count + 3"],
        [("project:42:fetches", 20240501, 3)],
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (77, 1, '2024-05-01')"],
        "SELECT project_id, date, fetch_count FROM project_daily_statistics WHERE project_id <> 77 ORDER BY 1, 2, 3", []),
    "contao, MyISAM and two counters": (
        ["CREATE TABLE tl_visitors_counter (id INT UNSIGNED NOT NULL AUTO_INCREMENT, vid INT UNSIGNED NOT NULL DEFAULT 0,"
         " visitors_date DATE NOT NULL DEFAULT '1999-01-01', visitors_visit INT UNSIGNED NOT NULL DEFAULT 0,"
         " visitors_hit INT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (id), UNIQUE KEY vid_date (vid, visitors_date)) ENGINE=MyISAM"],
        {kind: counter(f"counter:<store>:{kind}s", "date", "tl_visitors_counter",
                       {"store": "vid", "field": "visitors_date", "count": f"visitors_{kind}"}) for kind in ("visit", "hit")},
        ["INSERT INTO tl_visitors_counter (vid, visitors_date, visitors_visit, visitors_hit) VALUES (1, '2024-05-01', 5, 10)"],
        ["INSERT INTO tl_visitors_counter (vid, visitors_date, visitors_visit, visitors_hit) VALUES (1, '2024-05-01', 1, 3)"
         " ON DUPLICATE KEY UPDATE visitors_visit = visitors_visit + 1, visitors_hit = visitors_hit + 3"],
        [("counter:1:visits", 20240501, 1), ("counter:1:hits", 20240501, 3)],
        ["SELECT id, visitors_visit FROM tl_visitors_counter WHERE visitors_date = '2024-05-01' AND vid = 1"],
        "SELECT vid, visitors_date, visitors_visit, visitors_hit FROM tl_visitors_counter ORDER BY 1, 2", [INNODB]),
    "smf, narrow counts": (
        ["CREATE TABLE log_activity (date DATE NOT NULL, hits MEDIUMINT UNSIGNED NOT NULL DEFAULT 0,"
         " posts SMALLINT UNSIGNED NOT NULL DEFAULT 0, most_on SMALLINT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (date))"],
        {kind: counter(f"forum:{kind}", "date", "log_activity", {"field": "date", "count": kind}) for kind in ("hits", "posts")},
        ["INSERT INTO log_activity (date, hits, posts) VALUES ('2024-05-01', 10, 2)"],
        ["INSERT INTO log_activity (date, hits, posts) VALUES ('2024-05-01', 3, 1)"
         " ON DUPLICATE KEY UPDATE hits = hits + 3, posts = posts - 1"],
        [("forum:hits", 20240501, 3), ("forum:posts", 20240501, -1)],
        ["UPDATE log_activity SET most_on = 9 WHERE date = '2024-05-01'"],
        "SELECT date, hits, posts FROM log_activity ORDER BY 1", []),
    "discuz, a day as a number": (
        ["CREATE TABLE common_stat (daytime INT(10) UNSIGNED NOT NULL DEFAULT 0, login INT(10) UNSIGNED NOT NULL DEFAULT 0,"
         " post INT(10) UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (daytime)) ENGINE=MyISAM"],
        {kind: counter(f"stat:{kind}", "date", "common_stat", {"field": "daytime", "count": kind}) for kind in ("login", "post")},
        ["INSERT INTO common_stat (daytime, login) VALUES (20240501, 10)"],
        ["INSERT INTO common_stat (daytime, login, post) VALUES (20240501, 3, 1)"
         " ON DUPLICATE KEY UPDATE login = login + 3, post = post + 1"],
        [("stat:login", 20240501, 3), ("stat:post", 20240501, 1)],
        [], "SELECT daytime, login, post FROM common_stat ORDER BY 1", [INNODB]),
    "crates.io, other columns with defaults": (
        ["CREATE TABLE version_downloads (version_id INT NOT NULL, downloads INT NOT NULL DEFAULT 1, counted INT NOT NULL DEFAULT 0,"
         " date DATE NOT NULL DEFAULT (CURRENT_DATE), processed TINYINT(1) NOT NULL DEFAULT 0, PRIMARY KEY (version_id, date))"],
        {"downloads": counter("version:<store>:downloads", "date", "version_downloads",
                              {"store": "version_id", "field": "date", "count": "downloads"})},
        ["INSERT INTO version_downloads (version_id, downloads, date) VALUES (42, 10, '2024-05-01')"],
        ["INSERT INTO version_downloads (version_id, downloads, date) VALUES (42, 3, '2024-05-01')"
         " ON DUPLICATE KEY UPDATE downloads = downloads + 3"],
        [("version:42:downloads", 20240501, 3)],
        ["UPDATE version_downloads SET counted = downloads WHERE version_id = 77"],
        "SELECT version_id, date, downloads, counted, processed FROM version_downloads ORDER BY 1, 2", []),
    "magento, product, store and day": (
        ["CREATE TABLE report_viewed_product_aggregated_daily (id INT UNSIGNED NOT NULL AUTO_INCREMENT, period DATE NULL,"
         " store_id SMALLINT UNSIGNED NULL, product_id INT UNSIGNED NULL, product_name VARCHAR(255) NULL,"
         " product_price DECIMAL(12,4) NOT NULL DEFAULT 0, views_num INT NOT NULL DEFAULT 0,"
         " rating_pos SMALLINT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (id), UNIQUE KEY u (period, store_id, product_id),"
         " KEY (store_id), KEY (product_id))"],
        {"views": {**counter("store:<store>:product:<product>:views", "date 2024-05-01", "report_viewed_product_aggregated_daily",
                             {"store": "store_id", "product": "product_id", "field": "period", "count": "views_num"})}},
        ["INSERT INTO report_viewed_product_aggregated_daily (period, store_id, product_id, views_num)"
         " VALUES ('2024-05-01', 1, 42, 10), ('2024-05-01', 2, 42, 5)"],
        ["INSERT INTO report_viewed_product_aggregated_daily (period, store_id, product_id, views_num)"
         " VALUES ('2024-05-01', 1, 42, 3), ('2024-05-02', 2, 43, 4) ON DUPLICATE KEY UPDATE views_num = views_num + 3"],
        [("store:1:product:42:views", "2024-05-01", 3), ("store:2:product:43:views", "2024-05-02", 4)],
        [], "SELECT period, store_id, product_id, views_num FROM report_viewed_product_aggregated_daily ORDER BY 1, 2, 3", []),
    "shopware, a constant shop and a zero date": (
        ["CREATE TABLE s_statistics_article_impression (id INT UNSIGNED NOT NULL AUTO_INCREMENT, articleId INT UNSIGNED NOT NULL,"
         " shopId INT UNSIGNED NOT NULL, date DATE NOT NULL DEFAULT '0000-00-00', impressions INT NOT NULL, PRIMARY KEY (id),"
         " UNIQUE KEY articleId_2 (articleId, shopId, date), KEY articleId (articleId))"
         " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci"],
        {"impressions": {**counter("article:<article>:impressions", "date", "s_statistics_article_impression",
                                   {"article": "articleId", "field": "date", "count": "impressions"}), "constants": {"shopId": 1}}},
        ["INSERT INTO s_statistics_article_impression (articleId, shopId, date, impressions)"
         " VALUES (42, 1, '2024-05-01', 10), (42, 2, '2024-05-01', 5)"],
        ["INSERT INTO s_statistics_article_impression (articleId, shopId, date, impressions) VALUES (42, 1, '2024-05-01', 3)"
         " ON DUPLICATE KEY UPDATE impressions = impressions + 3"],
        [("article:42:impressions", 20240501, 3)],
        [], "SELECT articleId, shopId, date, impressions FROM s_statistics_article_impression ORDER BY 1, 2, 3", []),
    "shopware, visitors by device, without a unique key": (
        ["CREATE TABLE s_statistics_visitors (id INT NOT NULL AUTO_INCREMENT, shopID INT NOT NULL,"
         " datum DATE NOT NULL DEFAULT '0000-00-00', pageimpressions INT NOT NULL DEFAULT 0, uniquevisits INT NOT NULL DEFAULT 0,"
         " deviceType VARCHAR(50) NOT NULL DEFAULT 'desktop', PRIMARY KEY (id), KEY datum (datum))"
         " DEFAULT CHARSET=utf8 COLLATE=utf8_unicode_ci"],
        {"impressions": {**counter("shop:<store>:impressions", "date", "s_statistics_visitors",
                                   {"store": "shopID", "field": "datum", "count": "pageimpressions"}),
                         "constants": {"deviceType": "mobile"}}},
        ["INSERT INTO s_statistics_visitors (shopID, datum, pageimpressions, uniquevisits, deviceType)"
         " VALUES (1, '2024-05-01', 10, 5, 'desktop'), (1, '2024-05-01', 4, 2, 'mobile')"],
        ["UPDATE s_statistics_visitors SET pageimpressions = pageimpressions + 3"
         " WHERE shopID = 1 AND datum = '2024-05-01' AND deviceType = 'mobile'"],
        [("shop:1:impressions", 20240501, 3)],
        [], "SELECT shopID, datum, deviceType, pageimpressions FROM s_statistics_visitors ORDER BY 1, 2, 3", [KEY]),
    "zen cart, a day in CHAR(8) and nullable counts": (
        ["CREATE TABLE counter_history (startdate CHAR(8) NOT NULL DEFAULT '', counter INT(12) DEFAULT NULL,"
         " session_counter INT(12) DEFAULT NULL, PRIMARY KEY (startdate)) ENGINE=MyISAM DEFAULT CHARSET=utf8mb4"],
        {name: counter(f"{name}:daily", "date", "counter_history", {"field": "startdate", "count": count})
         for name, count in (("hits", "counter"), ("sessions", "session_counter"))},
        ["INSERT INTO counter_history VALUES ('20240501', 10, 1)"],
        ["UPDATE counter_history SET counter = counter + 3, session_counter = session_counter + 1 WHERE startdate = '20240501'"],
        [("hits:daily", 20240501, 3), ("sessions:daily", 20240501, 1)],
        ["SELECT counter FROM counter_history WHERE startdate = '20240501'"],
        "SELECT startdate, counter, session_counter FROM counter_history ORDER BY 1", [INNODB]),
    "cs-cart, two counts in a row": (
        ["CREATE TABLE product_popularity (product_id MEDIUMINT(8) UNSIGNED NOT NULL DEFAULT 0, viewed INT NOT NULL DEFAULT 0,"
         " added INT NOT NULL DEFAULT 0, total INT NOT NULL DEFAULT 0, PRIMARY KEY (product_id), KEY total (product_id, total))"
         " ENGINE=MyISAM DEFAULT CHARSET=utf8"],
        {kind: counter(f"product:{kind}", "integer", "product_popularity", {"field": "product_id", "count": kind})
         for kind in ("viewed", "total")},
        ["INSERT INTO product_popularity VALUES (42, 10, 0, 30)"],
        ["INSERT INTO product_popularity (product_id, viewed, total) VALUES (42, 3, 9)"
         " ON DUPLICATE KEY UPDATE viewed = viewed + 3, total = total + 9"],
        [("product:total", 42, 9), ("product:viewed", 42, 3)],
        [], "SELECT product_id, viewed, total FROM product_popularity ORDER BY 1", [INNODB]),
    "post views counter, a kind and a text period": (
        ["CREATE TABLE post_views (id BIGINT UNSIGNED NOT NULL, type TINYINT(1) UNSIGNED NOT NULL, period VARCHAR(8) NOT NULL,"
         " count BIGINT UNSIGNED NOT NULL, PRIMARY KEY (type, period, id), UNIQUE INDEX id_type_period_count (id, type, period, count),"
         " INDEX type_period_count (type, period, count)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_520_ci"],
        {"daily": {**counter("post:<post>:views", "date", "post_views", {"post": "id", "field": "period", "count": "count"}),
                   "constants": {"type": 0}}},
        ["INSERT INTO post_views VALUES (42, 0, '20240501', 10), (42, 4, 'total', 100)"],
        ["INSERT INTO post_views (id, type, period, count) VALUES (42, 0, '20240501', 3) ON DUPLICATE KEY UPDATE count = count + 3"],
        [("post:42:views", 20240501, 3)],
        [], "SELECT id, type, period, count FROM post_views ORDER BY 1, 2, 3", []),
    "top 10, a blog in the key": (
        ["CREATE TABLE top_ten (postnumber BIGINT(20) NOT NULL, cntaccess BIGINT(20) NOT NULL, blog_id BIGINT(20) NOT NULL DEFAULT 1,"
         " PRIMARY KEY (postnumber, blog_id), KEY idx_blog_id (blog_id)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_520_ci"],
        {"views": counter("blog:<blog>:views", "integer", "top_ten",
                          {"blog": "blog_id", "field": "postnumber", "count": "cntaccess"})},
        ["INSERT INTO top_ten VALUES (42, 10, 1)"],
        ["INSERT INTO top_ten (postnumber, cntaccess, blog_id) VALUES (42, 3, 1) ON DUPLICATE KEY UPDATE cntaccess = cntaccess + 3",
         "INSERT INTO top_ten (postnumber, cntaccess, blog_id) VALUES (43, 2, 1) ON DUPLICATE KEY UPDATE cntaccess = cntaccess + 2"],
        [("blog:1:views", 42, 3), ("blog:1:views", 43, 2)],
        [], "SELECT postnumber, blog_id, cntaccess FROM top_ten ORDER BY 1", []),
    "koko analytics, two counters of a day": (
        ["CREATE TABLE site_stats (date DATE NOT NULL PRIMARY KEY, visitors INT UNSIGNED NOT NULL DEFAULT 0,"
         " pageviews INT UNSIGNED NOT NULL DEFAULT 0) CHARACTER SET=ascii"],
        {kind: counter(f"site:{kind}", "date", "site_stats", {"field": "date", "count": kind}) for kind in ("visitors", "pageviews")},
        ["INSERT INTO site_stats VALUES ('2024-05-01', 5, 10)"],
        ["INSERT INTO site_stats VALUES ('2024-05-01', 1, 3), ('2024-05-02', 0, 2)"
         " ON DUPLICATE KEY UPDATE visitors = visitors + VALUES(visitors), pageviews = pageviews + VALUES(pageviews)"],
        [("site:visitors", 20240501, 1), ("site:pageviews", 20240501, 3), ("site:pageviews", 20240502, 2)],
        [], "SELECT date, visitors, pageviews FROM site_stats ORDER BY 1", []),
    "joomla, hour, kind and banner": (
        ["CREATE TABLE banner_tracks (track_date DATETIME NOT NULL, track_type INT UNSIGNED NOT NULL, banner_id INT UNSIGNED NOT NULL,"
         " count INT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (track_date, track_type, banner_id), KEY (track_type), KEY (banner_id))"],
        {"impressions": {**counter("banner:<banner>:impressions", "hour", "banner_tracks",
                                   {"banner": "banner_id", "field": "track_date", "count": "count"}), "constants": {"track_type": 1}}},
        ["INSERT INTO banner_tracks VALUES ('2024-05-01 13:00:00', 1, 7, 10), ('2024-05-01 13:00:00', 2, 7, 5)"],
        ["INSERT INTO banner_tracks VALUES ('2024-05-01 13:00:00', 1, 7, 3) ON DUPLICATE KEY UPDATE count = count + 3"],
        [("banner:7:impressions", 2024050113, 3)], [], "SELECT * FROM banner_tracks ORDER BY 1, 2, 3", []),
    "piwigo, an hour in four columns": (
        ["CREATE TABLE history_summary (year SMALLINT NOT NULL DEFAULT 0, month TINYINT DEFAULT NULL, day TINYINT DEFAULT NULL,"
         " hour TINYINT DEFAULT NULL, nb_pages INT DEFAULT NULL, UNIQUE KEY history_summary_ymdh (year, month, day, hour))"
         " ENGINE=MyISAM"],
        {"pages": counter("pages:hourly", "hour", "history_summary",
                          {"field": ["year", "month", "day", "hour"], "count": "nb_pages"})},
        ["INSERT INTO history_summary VALUES (2024, 5, 1, 13, 10), (2024, 5, 2, 13, 5), (2024, 5, NULL, NULL, 99)"],
        ["UPDATE history_summary SET nb_pages = nb_pages + 3 WHERE year = 2024 AND month = 5 AND day = 1 AND hour = 13"],
        [("pages:hourly", 2024050113, 3)], [],
        "SELECT year, month, day, hour, nb_pages FROM history_summary ORDER BY 1, 2, 3, 4", [INNODB]),
    "ilias, constants beside an hour": (
        ["CREATE TABLE obj_stat (obj_id INT NOT NULL DEFAULT 0, obj_type CHAR(10) NULL, yyyy INT NOT NULL DEFAULT 0,"
         " mm INT NOT NULL DEFAULT 0, dd INT NOT NULL DEFAULT 0, hh INT NOT NULL DEFAULT 0, read_count INT NULL DEFAULT 0,"
         " spent_seconds INT NULL DEFAULT 0, PRIMARY KEY (obj_id, yyyy, mm, dd, hh))"],
        {"reads": counter("obj:<obj>:<day>:reads", "integer", "obj_stat",
                          {"obj": "obj_id", "day": ["yyyy", "mm", "dd"], "field": "hh", "count": "read_count"}) | {"kinds": {"day": "date"}}},
        ["INSERT INTO obj_stat (obj_id, yyyy, mm, dd, hh, read_count) VALUES (42, 2024, 5, 1, 13, 10), (42, 2024, 5, 2, 13, 5)"],
        ["INSERT INTO obj_stat (obj_id, yyyy, mm, dd, hh, read_count) VALUES (42, 2024, 5, 1, 13, 3)"
         " ON DUPLICATE KEY UPDATE read_count = read_count + 3"],
        [("obj:42:20240501:reads", 13, 3)], [], "SELECT obj_id, yyyy, mm, dd, hh, read_count FROM obj_stat ORDER BY 1, 2, 3, 4, 5", []),
    "revive, hour, banner and zone": (
        ["CREATE TABLE data_bkt_m (interval_start DATETIME NOT NULL, creative_id MEDIUMINT NOT NULL, zone_id MEDIUMINT NOT NULL,"
         " count INT NOT NULL DEFAULT 0, PRIMARY KEY (interval_start, creative_id, zone_id)) ENGINE=MyISAM DEFAULT CHARSET=utf8mb4"],
        {"impressions": counter("zone:<zone>:impressions", "<banner>:<hour>", "data_bkt_m",
                                {"zone": "zone_id", "banner": "creative_id", "hour": "interval_start", "count": "count"})
         | {"kinds": {"hour": "hour 2024-05-01 13"}}},
        ["INSERT INTO data_bkt_m VALUES ('2024-05-01 13:00:00', 7, 3, 10), ('2024-05-01 13:00:00', 8, 3, 5)"],
        ["INSERT INTO data_bkt_m VALUES ('2024-05-01 13:00:00', 7, 3, 3) ON DUPLICATE KEY UPDATE count = count + 3"],
        [("zone:3:impressions", "7:2024-05-01 13", 3)], [], "SELECT * FROM data_bkt_m ORDER BY 1, 2, 3", [INNODB]),
    "words of any collation": (
        ["CREATE TABLE searches (lang CHAR(2) NOT NULL, term VARCHAR(99) NOT NULL, n INT UNSIGNED NOT NULL, PRIMARY KEY (lang, term))"
         " DEFAULT CHARSET=latin1 COLLATE=latin1_german1_ci"],
        {"searches": {**counter("search:<lang>", "text", "searches", {"lang": "lang", "field": "term", "count": "n"}),
                      "kinds": {"lang": "text"}}},
        ["INSERT INTO searches VALUES ('de', 'Schuhe', 10)"],
        ["INSERT INTO searches VALUES ('de', 'schuhe', 5), ('de', 'Mütze', 1), ('en', 'Shoes', 2) ON DUPLICATE KEY UPDATE n = n + 5",
         "INSERT INTO searches VALUES ('de', 'SCHUHE', -2 + 2 + 3), ('de', 'MÜTZE', 4) ON DUPLICATE KEY UPDATE n = n + VALUES(n)"],
        [("search:de", "schuhe", 5), ("search:de", "Mütze", 1), ("search:en", "Shoes", 2), ("search:de", "SCHUHE", 3),
         ("search:de", "MÜTZE", 4)], [], "SELECT lang, LOWER(term), n FROM searches ORDER BY 1, 2", []),
    "opencart 1 to 3, products that may be deleted": (
        ["CREATE TABLE oc_product (product_id INT NOT NULL AUTO_INCREMENT, model VARCHAR(64) NOT NULL, sku VARCHAR(64) NOT NULL,"
         " stock_status_id INT NOT NULL, image VARCHAR(255) NULL, price DECIMAL(15,4) NOT NULL DEFAULT 0,"
         " viewed INT(5) NOT NULL DEFAULT 0, date_added DATETIME NOT NULL, date_modified DATETIME NOT NULL, PRIMARY KEY (product_id))"
         " ENGINE=MyISAM DEFAULT CHARSET=utf8"],
        {"viewed": {**counter("product:viewed", "integer", "oc_product", {"field": "product_id", "count": "viewed"}), "missing": "reject"}},
        ["INSERT INTO oc_product (product_id, model, sku, stock_status_id, viewed, date_added, date_modified)"
         " VALUES (42, 'm', 's', 1, 10, NOW(), NOW()), (43, 'n', 't', 1, 0, NOW(), NOW())"],
        ["UPDATE oc_product SET viewed = viewed + 3 WHERE product_id = 42", "UPDATE oc_product SET viewed = viewed + 2 WHERE product_id = 43",
         "UPDATE oc_product SET viewed = viewed + 1 WHERE product_id = 99"],
        [("product:viewed", 42, 3), ("product:viewed", 43, 2), ("product:viewed", 99, 1)],
        ["INSERT INTO oc_product (model, sku, stock_status_id, date_added, date_modified) VALUES ('new', 'u', 1, NOW(), NOW())"],
        "SELECT product_id, viewed FROM oc_product WHERE model <> 'new' ORDER BY 1", [INNODB]),
    "oscommerce, a language and nothing kept of what is missing": (
        ["CREATE TABLE products_description (products_id INT NOT NULL AUTO_INCREMENT, language_id INT NOT NULL DEFAULT 1,"
         " products_name VARCHAR(64) NOT NULL DEFAULT '', products_description TEXT, products_url VARCHAR(255) DEFAULT NULL,"
         " products_viewed INT(5) DEFAULT 0, PRIMARY KEY (products_id, language_id), KEY products_name (products_name))"],
        {"viewed": {**counter("lang:<lang>:products_viewed", "integer", "products_description",
                              {"lang": "language_id", "field": "products_id", "count": "products_viewed"}), "missing": "drop"}},
        ["INSERT INTO products_description (products_id, language_id, products_name, products_viewed) VALUES (42, 1, 'a', 10),"
         " (42, 2, 'b', NULL)"],
        ["UPDATE products_description SET products_viewed = products_viewed + 3 WHERE products_id = 42 AND language_id = 1",
         "UPDATE products_description SET products_viewed = 2 WHERE products_id = 42 AND language_id = 2"],
        [("lang:1:products_viewed", 42, 3), ("lang:2:products_viewed", 42, 2), ("lang:1:products_viewed", 99, 1)],
        ["INSERT INTO products_description (language_id, products_name) VALUES (1, 'new')"],
        "SELECT products_id, language_id, products_viewed FROM products_description WHERE products_name <> 'new' ORDER BY 1, 2", []),
    "vanilla forums, discussions": (
        ["CREATE TABLE GDN_Discussion (DiscussionID INT NOT NULL AUTO_INCREMENT, CategoryID INT NOT NULL, InsertUserID INT NOT NULL,"
         " Name VARCHAR(100) NOT NULL, Body TEXT NOT NULL, CountViews INT UNSIGNED NOT NULL DEFAULT 1, PRIMARY KEY (DiscussionID))"
         " DEFAULT CHARSET=utf8mb4"],
        {"views": {**counter("discussions:views", "integer", "GDN_Discussion", {"field": "DiscussionID", "count": "CountViews"}),
                   "missing": "reject"}},
        ["INSERT INTO GDN_Discussion VALUES (42, 1, 1, 'a', 'b', 10), (43, 1, 1, 'a', 'b', 10)"],
        ["UPDATE GDN_Discussion SET CountViews = CountViews + 3 WHERE DiscussionID = 42",
         "UPDATE GDN_Discussion SET CountViews = CountViews - 10 WHERE DiscussionID = 43"],
        [("discussions:views", 42, 3), ("discussions:views", 43, -10), ("discussions:views", 99, 1)],
        ["INSERT INTO GDN_Discussion (CategoryID, InsertUserID, Name, Body) VALUES (1, 1, 'new', '')"],
        "SELECT DiscussionID, CountViews FROM GDN_Discussion WHERE Name <> 'new' ORDER BY 1", []),
    "posts by a slug of another character set": (
        ["CREATE TABLE posts (slug VARCHAR(60) NOT NULL, blog CHAR(4) NOT NULL, title VARCHAR(60) NOT NULL, views BIGINT UNSIGNED NULL,"
         " UNIQUE KEY s (slug, blog)) DEFAULT CHARSET=latin1 COLLATE=latin1_german1_ci"],
        {"views": {**counter("post:<blog>", "<slug>", "posts", {"blog": "blog", "slug": "slug", "count": "views"}),
                   "kinds": {"blog": "text", "slug": "text"}, "missing": "reject"}},
        ["INSERT INTO posts VALUES ('mütze', 'news', 'M', 10), ('?', 'news', 'Q', NULL)"],
        ["UPDATE posts SET views = 17 WHERE slug = 'mütze'"],
        [("post:news", "mütze", 3), ("post:news", "MÜTZE", 4), ("post:news", "€", 1)],
        ["INSERT INTO posts VALUES ('new', 'news', 'N', 0)"],
        "SELECT slug, views FROM posts WHERE slug <> 'new' ORDER BY 1", []),
    "wp statistics, the time of the last visit": (
        ["CREATE TABLE wp_statistics_visit (ID INT NOT NULL AUTO_INCREMENT, last_visit DATETIME NOT NULL, last_counter DATE NOT NULL,"
         " visit INT NOT NULL, PRIMARY KEY (ID), UNIQUE KEY unique_date (last_counter))"],
        {"visits": {**counter("visits:daily", "date", "wp_statistics_visit", {"field": "last_counter", "count": "visit"}),
                    "set": {"last_visit": "now"}}},
        ["INSERT INTO wp_statistics_visit (last_visit, last_counter, visit) VALUES ('2020-01-01', '2024-05-01', 10),"
         " ('2020-01-01', '2024-05-03', 1)"],
        ["INSERT INTO wp_statistics_visit (last_visit, last_counter, visit) VALUES (NOW(), '2024-05-01', 3)"
         " ON DUPLICATE KEY UPDATE visit = visit + 3, last_visit = NOW()",
         "INSERT INTO wp_statistics_visit (last_visit, last_counter, visit) VALUES (NOW(), '2024-05-02', 2)"],
        [("visits:daily", 20240501, 3), ("visits:daily", 20240502, 2)],
        ["SELECT * FROM wp_statistics_visit ORDER BY ID DESC LIMIT 1"],
        "SELECT last_counter, visit, ABS(TIMESTAMPDIFF(SECOND, last_visit, NOW())) < 600 FROM wp_statistics_visit ORDER BY 1", []),
    "wordpress popular posts, the first and the last day": (
        ["CREATE TABLE popularpostsdata (postid BIGINT(20) NOT NULL, day DATETIME NOT NULL, last_viewed DATETIME NOT NULL,"
         " pageviews BIGINT(20) DEFAULT 1, source VARCHAR(9) NOT NULL, touched TIMESTAMP NOT NULL DEFAULT '2020-01-01',"
         " seen INT UNSIGNED NOT NULL DEFAULT 7, PRIMARY KEY (postid))"],
        {"views": {**counter("posts:views", "integer", "popularpostsdata", {"field": "postid", "count": "pageviews"}),
                   "set": {"day": "now at insert", "last_viewed": "now", "source": "'web'", "touched": "now at update", "seen": "now at update"}}},
        ["INSERT INTO popularpostsdata VALUES (42, '2020-01-01', '2020-01-01', 10, 'app', '2020-01-01', 7)"],
        ["INSERT INTO popularpostsdata (postid, day, last_viewed, pageviews, source) VALUES (42, NOW(), NOW(), 3, 'web') ON DUPLICATE KEY"
         " UPDATE pageviews = pageviews + 3, last_viewed = NOW(), touched = NOW(), seen = UNIX_TIMESTAMP()",
         "INSERT INTO popularpostsdata (postid, day, last_viewed, pageviews, source) VALUES (43, NOW(), NOW(), 2, 'web')"],
        [("posts:views", 42, 3), ("posts:views", 43, 2)], [],
        "SELECT postid, pageviews, source, day > NOW() - INTERVAL 600 SECOND, last_viewed > NOW() - INTERVAL 600 SECOND,"
        " touched > NOW() - INTERVAL 600 SECOND, seen > UNIX_TIMESTAMP() - 600 FROM popularpostsdata ORDER BY 1", []),
    "drupal, node_counter with unix times": (
        ["CREATE TABLE node_counter (nid INT NOT NULL DEFAULT 0, totalcount BIGINT UNSIGNED NOT NULL DEFAULT 0,"
         " daycount MEDIUMINT UNSIGNED NOT NULL DEFAULT 0, timestamp INT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (nid))"
         " DEFAULT CHARSET=utf8mb4"],
        {name: {**counter(f"node:{name}", "integer", "node_counter", {"field": "nid", "count": count}), "set": {"timestamp": "now"}}
         for name, count in (("total", "totalcount"), ("today", "daycount"))},
        ["INSERT INTO node_counter VALUES (42, 100, 10, 1500000000), (77, 1, 1, 1500000000)"],
        ["INSERT INTO node_counter (nid, daycount, totalcount, timestamp) VALUES (42, 3, 3, UNIX_TIMESTAMP()) ON DUPLICATE KEY"
         " UPDATE daycount = daycount + 3, totalcount = totalcount + 3, timestamp = UNIX_TIMESTAMP()"],
        [("node:total", 42, 3), ("node:today", 42, 3)], ["UPDATE node_counter SET daycount = 0 WHERE nid = 77"],
        "SELECT nid, totalcount, daycount, timestamp > UNIX_TIMESTAMP() - 600 FROM node_counter ORDER BY 1", []),
    "no unique key, and counts that are NULL": (
        ["CREATE TABLE statistics (shop INT NOT NULL, day DATE NOT NULL, impressions INT DEFAULT NULL, KEY (day))"],
        {"impressions": counter("shop:<store>:impressions", "date", "statistics",
                                {"store": "shop", "field": "day", "count": "impressions"})},
        ["INSERT INTO statistics VALUES (1, '2024-05-01', NULL), (1, '2024-05-02', 4)"],
        ["UPDATE statistics SET impressions = COALESCE(impressions, 0) + 3 WHERE shop = 1 AND day = '2024-05-01'",
         "UPDATE statistics SET impressions = impressions + 2 WHERE shop = 1 AND day = '2024-05-02'"],
        [("shop:1:impressions", 20240501, 3), ("shop:1:impressions", 20240502, 2)],
        [], "SELECT shop, day, impressions FROM statistics ORDER BY 1, 2", [KEY]),
    "MyISAM, an id of its own and no other unique key": (
        ["CREATE TABLE page_views (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, page INT NOT NULL, day DATE NOT NULL, views INT NOT NULL DEFAULT 0,"
         " KEY (page)) ENGINE=MyISAM"],
        {"views": counter("page:<store>:views", "date", "page_views", {"store": "page", "field": "day", "count": "views"})},
        ["INSERT INTO page_views (page, day, views) VALUES (1, '2024-05-01', 10), (2, '2024-05-01', 5)"],
        ["UPDATE page_views SET views = views + 3 WHERE page = 1 AND day = '2024-05-01'"],
        [("page:1:views", 20240501, 3)],
        ["INSERT INTO page_views (page, day) VALUES (77, '2024-05-01')"],
        "SELECT page, day, views FROM page_views WHERE page <> 77 ORDER BY 1, 2", [INNODB, KEY]),
}


# MySQL's default takes no zero dates, so such programs' sessions have another.
ZERO_DATES = "SET sql_mode = REPLACE(@@sql_mode, 'NO_ZERO_DATE', '')"
# What is in no row, by the first key of the shape.
REJECTED = {"product:viewed": [("product:viewed", 99, 1)], "discussions:views": [("discussions:views", 99, 1)],
            "post:news": [("post:news", "€", 1)]}


def shape_of(mysql, tables):
    """As MySQL says it, but for ids that were given out."""
    said = (mysql.query(f"SHOW CREATE TABLE {ddl.split()[2]}")[0][1] for ddl in tables)
    return [" ".join(word for word in text.split() if not word.startswith("AUTO_INCREMENT=")) for text in said]


def run_all(mysql, statements):
    for statement in statements:
        mysql.query_bare(statement, None, ZERO_DATES, "USE shop")


def by_the_program(mysql, tables, seed, app, rows):
    """The rows as the program's own statements make them, one session; its tables are gone again."""
    link = mysql.connect()
    try:
        with link.cursor() as cursor:
            for statement in [ZERO_DATES, *tables, *seed, *app, rows]:
                cursor.execute(statement)
            expected = cursor.fetchall()
            for ddl in tables:
                cursor.execute(f"DROP TABLE {ddl.split()[2]}")
    finally:
        link.close()
    return expected


@pytest.mark.fault("schema-unsigned")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_as_the_program_does(shape, make_daemon, redis, mysql):
    tables, families, seed, app, hits, own, rows, asked = shape
    expected = by_the_program(mysql, tables, seed, app, rows)
    daemon = make_daemon(redis, start=False, migrate=False, families=families)
    run_all(mysql, [*tables, *seed])
    assert daemon.verb("migrate").returncode == 0
    before = shape_of(mysql, tables)
    done = daemon.verb("check")
    mends = [line.partition("mend it with: ")[2] for line in done.stderr.splitlines() if "mend it with: " in line]
    assert done.returncode == (78 if asked else 0), done.stdout + done.stderr
    assert {word for word in (INNODB, KEY) for mend in mends if word in mend} == set(asked), mends
    assert len(set(mends)) <= 1, mends  # of one table: each ALTER copies it
    assert ("A new table is a choice, too" in done.stderr) == bool(asked)
    for mend in dict.fromkeys(mends):
        assert not any(word in mend for word in ("DROP", "MODIFY", "CHANGE")), mend
        run_all(mysql, [mend.rstrip(";")])
    if not asked:
        assert shape_of(mysql, tables) == before
    daemon.start()
    with daemon.client() as client:
        for key, field, delta in hits:
            assert not isinstance(client.call("HINCRBY", key, field, delta), RespError)
            if key == hits[-1][0] and field == hits[-1][1]:
                daemon.sync_all()
        daemon.sync_all()
    wait_until(lambda: nothing_left(redis.client()), 30, "all is merged")
    assert mysql.query(rows) == expected
    assert sorted(mysql.query("SELECT pending_hash, field, delta FROM tally_rejects")) == sorted(
        tuple(str(word).encode() for word in hit) for hit in REJECTED.get(hits[0][0], ()))
    for statement in own:
        mysql.query(statement)
    daemon.verify()


@pytest.mark.fault("schema-folding")
def test_what_is_the_shops_stays(make_daemon, redis, mysql):
    """Tables that do not fit: the reason, and no statement that changes what the shop made."""
    for ddl, reason in (
            ("CREATE TABLE product_views (id INT AUTO_INCREMENT PRIMARY KEY, store_id BIGINT NOT NULL, product_id BIGINT NOT NULL,"
             " views FLOAT NOT NULL, UNIQUE KEY u (store_id, product_id))", "float, which does not hold a count"),
            ("CREATE TABLE product_views (store_id BIGINT NOT NULL, product_id BIGINT NOT NULL, views INT NOT NULL,"
             " slug VARCHAR(9) NOT NULL DEFAULT '', UNIQUE KEY s (slug), PRIMARY KEY (store_id, product_id))", "another row"),
            ("CREATE TABLE product_views (store_id BIGINT NOT NULL, product_id BIGINT NOT NULL, views INT NOT NULL,"
             " model VARCHAR(9) NOT NULL, PRIMARY KEY (store_id, product_id))", "NOT NULL without a default"),
            ("CREATE TABLE product_views (id INT AUTO_INCREMENT PRIMARY KEY, store_id BIGINT NOT NULL, product_id BIGINT NOT NULL,"
             " seen_at DATETIME NOT NULL)", "columns.count: none, so it is no counter table"),
            ("CREATE TABLE searches (store_id BIGINT NOT NULL, term JSON NOT NULL, searches INT NOT NULL, id INT PRIMARY KEY"
             " AUTO_INCREMENT)", "which does not hold a text")):
        daemon = make_daemon(redis, start=False).migrate()
        mysql.query(f"DROP TABLE {ddl.split()[2]}")
        mysql.query(ddl)
        done = daemon.verb("check")
        assert done.returncode == 78 and reason in done.stderr and "mend it with" not in done.stderr, done.stderr
        assert "tallyd suggest TABLE" in done.stderr
        mysql.query(f"DROP TABLE {ddl.split()[2]}")


def test_a_count_beyond_63_bits(make_daemon, redis, mysql):
    """An UNSIGNED BIGINT that the shop filled: its total is refused, which was 0; that of another row is told."""
    families = {"hits": counter("pages:hits", "integer", "hit_counter", {"field": "page_id", "count": "n"})}
    mysql.query("CREATE TABLE hit_counter (page_id INT NOT NULL PRIMARY KEY, n BIGINT UNSIGNED NOT NULL)")
    mysql.query("INSERT INTO hit_counter VALUES (1, 9223372036854775808), (2, 9223372036854775807)")
    daemon = make_daemon(redis, families=families)
    with daemon.client() as client:
        assert str(client.call("CTR.TOTAL", "pages:hits", 1)) == "ERR a total is out of range"
        assert client.call("CTR.TOTAL", "pages:hits", 2) == [9223372036854775807]
        client.call("HINCRBY", "pages:hits", 1, 5)
        daemon.sync_all()
    assert mysql.query("SELECT n FROM hit_counter WHERE page_id = 1") == ((9223372036854775813,),)
    daemon.verify()


def test_a_sum_below_zero(make_daemon, redis, mysql):
    """An UNSIGNED count takes what it can; the rest is a reject, which can be replayed when there is room; adjust the same."""
    families = {"hits": counter("pages:hits", "integer", "hit_counter", {"field": "page_id", "count": "n"})}
    mysql.query("CREATE TABLE hit_counter (page_id INT NOT NULL PRIMARY KEY, n INT UNSIGNED NOT NULL)")
    mysql.query(f"INSERT INTO hit_counter SELECT seq, 5 FROM {numbers(40)}")
    daemon = make_daemon(redis, families=families)
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "pages:hits", page, -6 if page == 7 else -5 if page % 2 else 5) for page in range(1, 41)])
        daemon.sync_all()
        assert client.call("CTR.TOTAL", "pages:hits", 7, 9, 10) == [5, 0, 10]
    assert mysql.query("SELECT SUM(n), SUM(n = 0) FROM hit_counter")[0] == (20 * 10 + 5, 19)
    assert mysql.query("SELECT field, delta FROM tally_rejects WHERE replayed_at IS NULL") == ((b"7", b"-6"),)
    daemon.verify()
    where = ["--counter", "hits", "--field", "7", "--reason", "returned"]
    assert daemon.verb("adjust", *where, "--by", "-6").returncode == 1
    assert daemon.verb("adjust", *where, "--by", "1").returncode == 0
    assert daemon.verb("rejects", "replay", "--all").returncode == 0
    assert mysql.query("SELECT n FROM hit_counter WHERE page_id = 7") == ((0,),)
    assert daemon.verb("adjust", *where, "--set", "3").returncode == 0
    assert mysql.query("SELECT n FROM hit_counter WHERE page_id = 7") == ((3,),)
    daemon.verify()


def test_double_rows(mysql):
    """What the page says folds them."""
    with open(f"{os.path.dirname(__file__)}/../../sql/README.md", encoding="utf-8") as page:
        fold = re.search(r"^    START TRANSACTION;\n(.*?)^    COMMIT;", page.read(), re.MULTILINE | re.DOTALL)[1]
    run_all(mysql, ["CREATE TABLE product_views (id INT AUTO_INCREMENT PRIMARY KEY, product_id INT, day DATE, views INT)",
                    "INSERT INTO product_views (product_id, day, views) VALUES (1, '2024-05-01', 3), (2, '2024-05-01', 4),"
                    " (1, '2024-05-01', 10), (1, '2024-05-02', 20), (1, '2024-05-01', 100), (1, '2024-05-02', 200)",
                    *filter(str.strip, fold.split(";")), "ALTER TABLE product_views ADD UNIQUE KEY (product_id, day)"])
    assert mysql.query("SELECT id, views FROM product_views ORDER BY id") == ((1, 113), (2, 4), (4, 220))


def test_columns_that_are_set(make_daemon, redis, mysql):
    """`migrate --tables` makes them, and `check` says how to add one that a table has not."""
    words = {**counter("posts:views", "integer", "post_views", {"field": "post", "count": "views"}),
             "set": {"made": "now at insert", "seen": "now", "site": "7", "source": "'web'"}}
    daemon = make_daemon(redis, start=False, migrate=False, families={"posts": words})
    assert daemon.verb("migrate", "--tables").returncode == 0
    done = daemon.verb("check")
    assert done.returncode == 0, done.stderr
    for column in words["set"]:
        mysql.query(f"ALTER TABLE post_views DROP COLUMN {column}")
        done = daemon.verb("check")
        (mend,) = [line.partition("mend it with: ")[2] for line in done.stderr.splitlines() if "mend it with: " in line]
        assert done.returncode == 78 and not any(
            name in done.stderr.partition("do for set: ")[2].split("\n")[0] for name in ("post,", "views")), done.stderr
        mysql.query(mend.rstrip(";"))
    assert daemon.verb("check").returncode == 0
    daemon.start()
    with daemon.client() as client:
        client.call("HINCRBY", "posts:views", 42, 3)
    daemon.sync_all()
    assert mysql.query("SELECT post, views, made = seen AND made IS NOT NULL, site, source FROM post_views") == ((42, 3, 1, 7, b"web"),)
    daemon.verify()
