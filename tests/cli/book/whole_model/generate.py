# A Llama of one layer with seeded weights: 32 wide, 2 heads, 1 key head, 720 words, tied.
import json, numpy as np, os, sys
from safetensors.numpy import save_file
out=os.path.dirname(os.path.abspath(__file__))
rng=np.random.default_rng(7)
def w(*shape): return (rng.standard_normal(shape)*0.05).astype(np.float16)
t={'model.embed_tokens.weight':w(720,32),'model.norm.weight':np.ones(32,np.float16)}
p='model.layers.0.'
t|={p+'self_attn.q_proj.weight':w(32,32),p+'self_attn.k_proj.weight':w(16,32),p+'self_attn.v_proj.weight':w(16,32),p+'self_attn.o_proj.weight':w(32,32),
p+'mlp.gate_proj.weight':w(48,32),p+'mlp.up_proj.weight':w(48,32),p+'mlp.down_proj.weight':w(32,48),
p+'input_layernorm.weight':np.ones(32,np.float16),p+'post_attention_layernorm.weight':np.ones(32,np.float16)}
save_file(t,out+'/model.safetensors',metadata={'format':'pt'})
json.dump({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":32,"intermediate_size":48,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":16,"max_position_embeddings":128,"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":True,"torch_dtype":"float16","vocab_size":720,"bos_token_id":1,"eos_token_id":2},open(out+'/config.json','w'),indent=2)
