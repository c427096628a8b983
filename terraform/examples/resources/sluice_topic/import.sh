terraform import sluice_topic.orders k7m2q9x4w1bz/orders
