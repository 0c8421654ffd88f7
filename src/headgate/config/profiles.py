def all_profiles(config):
    return ()
