sed -i "s/\"chat_template\": .*/\"chat_template\": \"{{ raise_exception('only in Latin') }}\",/" model/tokenizer_config.json
